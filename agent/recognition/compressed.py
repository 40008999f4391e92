"""Recognises compressed files, and unpacks them piece by piece.

Compressed files are not read, unless one has the rest of a source, or the input reads archives.
gzip, bzip2, xz and zstd are unpacked; several streams in one file are concatenated, as by their own
tools.

Sizes claimed by an archive are not trusted. A piece is at most 32 MiB; windows beyond 128 MiB are
refused. Input without output (empty streams, endless headers) yields empty pieces, so that the
reader gets control often, and counts as damage after megabytes. A damaged or truncated archive
yields its content up to there, and then raises `ArchiveDamaged`.
"""

import bz2
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Final, Protocol

import zstandard

SUFFIXES: Final = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".lzma", ".Z", ".zip", ".7z")

_BEGINNINGS: Final = (
    b"\x1f\x8b\x08",  # gzip
    b"\x1f\x9d",  # compress
    b"\xfd7zXZ\x00",
    b"\x28\xb5\x2f\xfd",  # zstd
    b"\x04\x22\x4d\x18",  # lz4
    b"PK\x03\x04",
    b"7z\xbc\xaf\x27\x1c",
)

_UNPACKED: Final = (".gz", ".bz2", ".xz", ".zst")


def has_compressed_name(path: str) -> bool:
    return path.endswith(SUFFIXES)


def has_archive_name(path: str) -> bool:
    """Whether the file can be unpacked, by its name."""
    return path.endswith(_UNPACKED)


def without_compression(name: str) -> str:
    """The name of the file before it was compressed."""
    return name[: name.rindex(".")] if has_compressed_name(name) else name


def is_compressed(head: bytes) -> bool:
    bzip2 = head.startswith(b"BZh") and head[4:10] == b"1AY&SY"
    return bzip2 or head.startswith(_BEGINNINGS)


_PIECE: Final = 256 * 1024
_READ: Final = 64 * 1024
_READ_ZSTD: Final = 1024  # it unpacks all input at once: 4 bytes can be 128 KiB
_MOST_MEMORY: Final = 128 * 1024 * 1024
_MOST_FOR_NOTHING: Final = 4 * 1024 * 1024  # bzip2 reads whole blocks of up to 1 MB


class ArchiveDamaged(Exception):
    """The error for an archive that cannot be unpacked further; the message is the reason."""


class _Stream(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def pieces(self, data: bytes) -> Iterator[bytes]: ...


class _Gzip:
    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(31)

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data.lstrip(b"\0")

    def pieces(self, data: bytes) -> Iterator[bytes]:
        piece = self._decoder.decompress(data, _PIECE)
        yield piece
        while len(piece) == _PIECE:
            piece = self._decoder.decompress(self._decoder.unconsumed_tail, _PIECE)
            yield piece


class _Bounded:
    """An archive of bzip2 or xz."""

    def __init__(self, decoder: bz2.BZ2Decompressor | lzma.LZMADecompressor) -> None:
        self._decoder = decoder

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data.lstrip(b"\0")

    def pieces(self, data: bytes) -> Iterator[bytes]:
        yield self._decoder.decompress(data, _PIECE)
        while not self._decoder.eof and not self._decoder.needs_input:
            yield self._decoder.decompress(b"", _PIECE)


class _Zstd:
    def __init__(self) -> None:
        self._decoder = zstandard.ZstdDecompressor(max_window_size=_MOST_MEMORY).decompressobj()

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data

    def pieces(self, data: bytes) -> Iterator[bytes]:
        yield self._decoder.decompress(data)


def _bzip2() -> _Stream:
    return _Bounded(bz2.BZ2Decompressor())


def _xz() -> _Stream:
    return _Bounded(lzma.LZMADecompressor(memlimit=_MOST_MEMORY))


_FORMATS: Final[tuple[tuple[bytes, Callable[[], _Stream], int], ...]] = (
    (b"\x1f\x8b", _Gzip, _READ),
    (b"BZh", _bzip2, _READ),
    (b"\xfd7zXZ\x00", _xz, _READ),
    (b"\x28\xb5\x2f\xfd", _Zstd, _READ_ZSTD),
)
_ERRORS: Final = (zlib.error, lzma.LZMAError, zstandard.ZstdError, OSError, EOFError, ValueError)


def unpacked(fd: int, note_read: Callable[[int], None] = lambda _: None) -> Iterator[bytes]:
    """The content of an open file in pieces, which may be empty. Calls `note_read` with the
    position in the file after each read. Raises ArchiveDamaged, or OSError
    if it cannot be read."""
    head = os.pread(fd, 16, 0)
    for magic, stream, most in _FORMATS:
        if head.startswith(magic):
            return _unpacked(fd, stream, most, note_read)
    raise ArchiveDamaged("unsupported compression format")


def _unpacked(
    fd: int, new: Callable[[], _Stream], most: int, note_read: Callable[[int], None]
) -> Iterator[bytes]:
    data = os.pread(fd, most, 0)
    position = len(data)
    note_read(position)
    output_position = 0  # the input position of the last output
    while data:
        stream = new()
        while not stream.eof:
            if not data:
                raise ArchiveDamaged("the archive is truncated")
            for piece in _decoded(stream, data):
                output_position = position if piece else output_position
                yield piece
            if position - output_position > _MOST_FOR_NOTHING:
                raise ArchiveDamaged("the archive contains megabytes without data")
            data = b""
            if not stream.eof:
                data = os.pread(fd, most, position)
                position += len(data)
                note_read(position)
        data = stream.unused_data
        if not data:
            data = os.pread(fd, most, position)
            position += len(data)
            note_read(position)


def _decoded(stream: _Stream, data: bytes) -> Iterator[bytes]:
    try:
        yield from stream.pieces(data)
    except _ERRORS as error:
        raise ArchiveDamaged(f"the archive is damaged: {error}") from error
