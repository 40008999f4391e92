"""Frames entries in a file, so that torn and damaged ones are recognised.

    magic "PJ" | version u8 | kind u8 | size of meta u32 | size of body u32 | CRC u32 | CRC u32
    meta … | body …

All little-endian. The first CRC-32C covers meta and body; the second covers the header before it,
starting with the journal's salt, so that bytes that look like an entry, for example in a shipped
log line, are not taken for one. `meta` is the entry; `body` has its record batches, byte for byte.
This layout is the same in every version.

A process that is killed leaves the beginning of a frame at the end of a file: a torn entry. Any
other invalid bytes are damage.
"""

import os
import struct
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from crc32c import crc32c

VERSION: Final = 1

_MAGIC: Final = b"PJ"
_START: Final = struct.Struct("<2sBBIII")
_END: Final = struct.Struct("<I")
HEADER_SIZE: Final = _START.size + _END.size

_WINDOW: Final = 256 * 1024

Buffer = bytes | bytearray | memoryview


class JournalFrame(msgspec.Struct, frozen=True):
    """A whole entry, and its position."""

    position: int
    end: int
    version: int
    kind: int
    meta: bytes
    body: bytes


class FrameFault(msgspec.Struct, frozen=True):
    """The finding that there is no complete entry at `position`. `torn`: no entry can follow."""

    position: int
    torn: bool


def framed(kind: int, meta: bytes, body: Sequence[Buffer] = (), *, salt: int) -> list[Buffer]:
    """The pieces of a frame to write; those of the body are not copied."""
    crc = crc32c(meta)
    size = 0
    for piece in body:
        crc = crc32c(piece, crc)
        size += len(piece)
    start = _START.pack(_MAGIC, VERSION, kind, len(meta), size, crc)
    return [start + _END.pack(crc32c(start, salt)), meta, *body]


class JournalFrameReader:
    """Reads the frames of a file, which must not change meanwhile."""

    def __init__(self, fd: int, salt: int = 0) -> None:
        self._fd = fd
        self._window = b""
        self._window_at = 0
        self.salt = salt
        self.size = os.fstat(fd).st_size

    def at(self, position: int) -> JournalFrame | FrameFault | None:
        """The frame at a position; None at the end of the file."""
        remaining_bytes = self.size - position
        if remaining_bytes <= 0:
            return None
        header = self._read(position, min(remaining_bytes, HEADER_SIZE))
        if len(header) < HEADER_SIZE:
            return FrameFault(position, torn=True)
        magic, version, kind, meta_size, body_size, crc = _START.unpack_from(header)
        (header_crc,) = _END.unpack_from(header, _START.size)
        if magic != _MAGIC or header_crc != crc32c(header[: _START.size], self.salt):
            return FrameFault(position, torn=self._is_blank(position))
        if HEADER_SIZE + meta_size + body_size > remaining_bytes:
            return FrameFault(position, torn=True)
        meta = self._read(position + HEADER_SIZE, meta_size)
        body = self._read(position + HEADER_SIZE + meta_size, body_size)
        if crc32c(body, crc32c(meta)) != crc:
            return FrameFault(position, torn=False)
        end = position + HEADER_SIZE + meta_size + body_size
        return JournalFrame(position, end, version, kind, meta, body)

    def whole_after(self, position: int) -> Iterator[JournalFrame]:
        """The whole entries from a position on, skipping anything else."""
        while (start := self._find(position)) is not None:
            frame = self.at(start)
            position = start + 1
            if isinstance(frame, JournalFrame):
                yield frame
                position = frame.end

    def _find(self, position: int) -> int | None:
        while position < self.size:
            chunk = self._read(position, min(_WINDOW, self.size - position))
            index = chunk.find(_MAGIC)
            if index >= 0:
                return position + index
            if position + len(chunk) >= self.size:
                return None
            position += len(chunk) - 1
        return None

    def _is_blank(self, position: int) -> bool:
        """Whether only zeros follow: power failed when the file had grown but was not written."""
        for start in range(position, self.size, _WINDOW):
            if self._read(start, min(_WINDOW, self.size - start)).strip(b"\0"):
                return False
        return True

    def _read(self, position: int, size: int) -> bytes:
        start = position - self._window_at
        if not 0 <= start <= start + size <= len(self._window):
            if size > _WINDOW // 2:
                return self._pread(position, size)
            self._window, self._window_at = self._pread(position, _WINDOW), position
            start = 0
        return self._window[start : start + size]

    def _pread(self, position: int, size: int) -> bytes:
        data = os.pread(self._fd, size, position)
        if len(data) < min(size, self.size - position):
            raise OSError(f"read {len(data)} bytes instead of {size} at byte {position}")
        return data
