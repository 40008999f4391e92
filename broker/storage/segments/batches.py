"""The batches of a segment file, walked by their headers, or verified byte by byte.

No length is trusted beyond the end of the file, and nothing is ever written.
"""

import os
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from broker.storage.errors import InvalidBatch
from broker.storage.segments.files import OpenFile
from wire.record_batches.batch import CRC_START, HEADER_SIZE, MAGIC, BatchHeader, read_header

_WALK: Final = 1 << 16  # bytes read at once for headers, where batches are small
_VERIFY: Final = 1 << 22
_MAGIC_AT: Final = 16
_OFFSET: Final = struct.Struct(">q")
_MAX_DELTA: Final = 2**31 - 1


class Located(NamedTuple):
    """A batch, and its position in its file."""

    position: int
    header: BatchHeader

    @property
    def end(self) -> int:
        return self.position + self.header.size


class Appended(NamedTuple):
    """The position of a batch in the log; for a duplicate, that of the original."""

    base_offset: int
    last_offset: int
    duplicate: bool


def read_bytes(file: OpenFile, position: int, length: int) -> bytes:
    """Reads exactly `length` bytes, or fewer at the file's end."""
    data = os.pread(file.fd, length, position)
    while len(data) < length and (
        chunk := os.pread(file.fd, length - len(data), position + len(data))
    ):
        data += chunk
    return data


def header_at(file: OpenFile, position: int, end: int) -> BatchHeader | None:
    """Returns the header of the batch at `position` that ends by `end`; None if there is none."""
    data = os.pread(file.fd, HEADER_SIZE, position)
    if len(data) < HEADER_SIZE:
        return None
    header = read_header(data)
    return header if _plausible(header, position, end) else None


def walk(file: OpenFile, position: int, end: int, read_ahead: int = _WALK) -> Iterator[Located]:
    """Yields the batches from `position` on, by their headers, up to `end` or the first invalid
    one.

    If the walk did not reach `end`, its caller decides what that means.
    """
    chunk, chunk_at, ahead = b"", position, read_ahead
    while position + HEADER_SIZE <= end:
        chunk_position = position - chunk_at
        if chunk_position + HEADER_SIZE > len(chunk):
            chunk, chunk_at, chunk_position = (
                os.pread(file.fd, min(ahead, end - position), position),
                position,
                0,
            )
            if len(chunk) < HEADER_SIZE:
                return
        header = read_header(chunk, chunk_position)
        if not _plausible(header, position, end):
            return
        yield Located(position, header)
        position += header.size
        ahead = read_ahead if header.size < read_ahead // 4 else HEADER_SIZE


def _plausible(header: BatchHeader, position: int, end: int) -> bool:
    return (
        header.magic == MAGIC
        and header.size >= HEADER_SIZE
        and position + header.size <= end
        and header.base_offset >= 0
        and header.last_offset_delta >= 0
    )


def verify(
    file: OpenFile, position: int, end: int, offset: int, *, gaps: bool
) -> Iterator[Located]:
    """Yields the batches from `position` to `end`, each read whole: checks header, CRC, and
    consecutive offsets.

    `offset` is the one that the first batch must have (or exceed, where compaction leaves `gaps`).
    Raises `InvalidBatch` at the first that is invalid.
    """
    buffer = memoryview(bytearray(min(_VERIFY, max(end - position, HEADER_SIZE))))
    buffer_start = buffer_end = position
    while position < end:
        if position + HEADER_SIZE > end:
            raise InvalidBatch(
                position, offset, f"{end - position} bytes are too short for a batch header"
            )
        if position + HEADER_SIZE > buffer_end:
            buffer_start, buffer_end = position, position + _fill(file, buffer, position, end)
        if position + HEADER_SIZE > buffer_end:
            raise InvalidBatch(position, offset, "the file was truncated")
        header = read_header(buffer, position - buffer_start)
        size = header.size
        next_position = position + size
        if (
            header.magic != MAGIC
            or size < HEADER_SIZE
            or next_position > end
            or header.base_offset != offset
            or header.last_offset_delta < 0
        ):
            _check(header, position, end, offset, gaps=gaps)
        if next_position > buffer_end and size <= len(buffer):
            buffer_start, buffer_end = position, position + _fill(file, buffer, position, end)
        if next_position <= buffer_end:
            at = position - buffer_start
            crc = crc32c(buffer[at + CRC_START : at + size])
        else:
            crc = _crc_of_file(file, position + CRC_START, next_position, buffer)
            buffer_start = buffer_end = next_position
        if crc != header.crc:
            raise InvalidBatch(position, offset, "the CRC does not match the bytes")
        yield Located(position, header)
        position, offset = next_position, header.next_offset


def _check(header: BatchHeader, position: int, end: int, offset: int, *, gaps: bool) -> None:
    """Raise unless the batch may be there; a batch after a gap may have a later offset."""
    if header.magic != MAGIC:
        raise InvalidBatch(
            position, offset, f"unexpected record format {header.magic}, not {MAGIC}"
        )
    if header.size < HEADER_SIZE:
        raise InvalidBatch(position, offset, f"invalid batch size {header.size}")
    if position + header.size > end:
        missing_bytes = position + header.size - end
        raise InvalidBatch(
            position, offset, f"the last {missing_bytes} bytes of the batch are missing"
        )
    if header.base_offset != offset and (header.base_offset < offset or not gaps):
        raise InvalidBatch(position, offset, f"unexpected base offset {header.base_offset}")
    if header.last_offset_delta < 0:
        raise InvalidBatch(
            position, offset, f"invalid last offset delta {header.last_offset_delta}"
        )


def _fill(file: OpenFile, buffer: memoryview, position: int, end: int) -> int:
    """Read from `position` until the buffer or the range is full; returns the number of bytes."""
    wanted_bytes = min(len(buffer), end - position)
    filled_bytes = 0
    while filled_bytes < wanted_bytes:
        count = os.preadv(file.fd, [buffer[filled_bytes:wanted_bytes]], position + filled_bytes)
        if count == 0:
            break
        filled_bytes += count
    return filled_bytes


def _crc_of_file(file: OpenFile, position: int, end: int, buffer: memoryview) -> int:
    crc = 0
    while position < end:
        count = _fill(file, buffer, position, end)
        if count == 0:
            break
        crc = crc32c(buffer[:count], crc)
        position += count
    return crc


def ends_within_batch(file: OpenFile, position: int, end: int, offset: int) -> bool:
    """Returns whether the bytes at `position` are the beginning of the batch with that offset, cut
    off by the end of the file. Trusts the existing part of an incomplete header."""
    data = os.pread(file.fd, HEADER_SIZE, position) if position < end else b""
    if len(data) < HEADER_SIZE:
        return data[: _OFFSET.size] == _OFFSET.pack(offset)[: len(data)]
    header = read_header(data)
    return header.magic == MAGIC and header.base_offset == offset and position + header.size > end


def find_valid(file: OpenFile, position: int, end: int, above: int) -> Located | None:
    """Returns the first complete and valid batch that begins after `position`, at any byte; None if
    there is none.

    Only batches with offsets above `above` count: a batch of this log that was appended after the
    damage is sought.
    """
    position += 1
    while position + HEADER_SIZE <= end:
        chunk = read_bytes(file, position, min(_VERIFY, end - position))
        for start in _candidates(chunk):
            located_batch = _valid_at(
                file, position + start, end, above, chunk[start : start + HEADER_SIZE]
            )
            if located_batch is not None:
                return located_batch
        if len(chunk) <= HEADER_SIZE:
            return None
        position += len(chunk) - HEADER_SIZE + 1
    return None


def _candidates(chunk: bytes) -> Iterator[int]:
    """Positions where a header may begin, by its magic byte; a complete header follows."""
    last_position = len(chunk) - HEADER_SIZE
    magic = chunk.find(MAGIC, _MAGIC_AT)
    while 0 <= magic - _MAGIC_AT <= last_position:
        yield magic - _MAGIC_AT
        magic = chunk.find(MAGIC, magic + 1)


def _valid_at(file: OpenFile, position: int, end: int, above: int, head: bytes) -> Located | None:
    (offset,) = _OFFSET.unpack_from(head)
    header = read_header(head)
    if not above < offset <= above + _MAX_DELTA or not _plausible(header, position, end):
        return None
    try:
        return next(verify(file, position, position + header.size, offset, gaps=False))
    except InvalidBatch:
        return None
