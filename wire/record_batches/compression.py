"""Kafka's compression codecs, with a limit on the uncompressed size.

A kilobyte can claim to be a terabyte, and the codecs trust it. So nothing is decompressed before
its size is known to be within the limit: gzip stops by itself, snappy states its size, and lz4 and
zstd frames are walked block by block, which yields an upper bound. The compressed bytes come from a
peer; anything wrong with them is a `BatchError`.
"""

import mmap
import zlib
from enum import IntEnum
from typing import Protocol

import cramjam

from wire.errors import BatchError, ErrorCode

MAX_UNPACKED = 128 * 1024 * 1024

_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\0\0\0\1\0\0\0\1"  # version, lowest version that can read it
_XERIAL_BLOCK = 32 * 1024
_GZIP = 31  # zlib's window bits, +16 for gzip's header
_PIECE = 1024 * 1024

_SKIPPABLE_MAGIC = 0x184D2A50  # to …5F: frames common to lz4 and zstd
_LZ4_MAGIC = 0x184D2204
_LZ4_RATIO = 255
_LZ4_FORM_MASK = 0b1110_0011  # version, independent blocks, reserved, dictionary
_LZ4_FORM = 0b0110_0000
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_BLOCK = 128 * 1024
_ZSTD_DICTIONARY_ID_SIZE = (0, 1, 2, 4)
_ZSTD_CONTENT_SIZE_SIZE = (0, 2, 4, 8)


class TooLarge(BatchError):
    """The uncompressed data exceeds, or may exceed, the available room."""


class _FrameLibrary(Protocol):
    def decompress_into(
        self, data: memoryview, output: bytearray | mmap.mmap | memoryview, /
    ) -> int: ...


class Codec(IntEnum):
    """The codec bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Codec, data: bytes, *, level: int | None = None) -> bytes:
    """Compresses data; `level` applies to gzip and zstd only."""
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            return zlib.compress(data, -1 if level is None else level, wbits=_GZIP)
        case Codec.SNAPPY:
            return _to_xerial(data)
        case Codec.LZ4:
            # Independent blocks: Kafka's own reader supports no others.
            compressor = cramjam.lz4.Compressor(level=1, content_checksum=False, block_linked=False)
            compressor.compress(data)
            return bytes(compressor.finish())
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))


def decompress(codec: Codec, data: memoryview, limit: int = MAX_UNPACKED) -> bytes | memoryview:
    """Returns the uncompressed data, at most `limit` bytes, or raises `BatchError`."""
    try:
        match codec:
            case Codec.NONE:
                return data
            case Codec.GZIP:
                return _from_gzip(data, limit)
            case Codec.SNAPPY:
                return _from_snappy(data, limit)
            case Codec.LZ4:
                return _from_frames(cramjam.lz4, _lz4_bound(data), data, limit)
            case Codec.ZSTD:
                return _from_frames(cramjam.zstd, _zstd_bound(data), data, limit)
    except (cramjam.DecompressionError, zlib.error, IndexError) as error:
        raise _corrupt(f"{codec.name.lower()}: {error}") from error


def unpack_frame(
    codec: Codec, data: memoryview, room: memoryview, *, certainly: bool = False
) -> int:
    """Decompresses into `room`; returns the size, or raises `TooLarge`.

    `data` must be exactly one frame, of a form that every client reads: of two frames, some clients
    read only the first. With `certainly`, lz4 and zstd raise `TooLarge` before decompressing
    anything unless the blocks are so few that the data must fit.
    """
    try:
        match codec:
            case Codec.NONE:
                raise _corrupt("the batch is not compressed")
            case Codec.GZIP:
                return _gzip_into(data, room)
            case Codec.SNAPPY:
                return _snappy_into(data, room)
            case Codec.LZ4:
                frame = _lz4_frame(data, 0)
                # Java reads only these frames: version 1, no dictionary, independent blocks.
                if data[4] & _LZ4_FORM_MASK != _LZ4_FORM:
                    raise _corrupt(f"lz4: unsupported frame flags {data[4]:#04x}")
                return _frame_into(cramjam.lz4, frame, data, room, certainly=certainly)
            case Codec.ZSTD:
                frame = _zstd_frame(data, 0)
                return _frame_into(cramjam.zstd, frame, data, room, certainly=certainly)
    except (cramjam.DecompressionError, zlib.error, IndexError) as error:
        raise _corrupt(f"{codec.name.lower()}: {error}") from error


def _gzip_into(data: memoryview, room: memoryview) -> int:
    stream = zlib.decompressobj(_GZIP)
    at = 0
    remaining_data: bytes | memoryview = data
    while not stream.eof:
        piece = stream.decompress(remaining_data, min(_PIECE, len(room) - at + 1))
        if not piece and not stream.eof:
            raise _corrupt("gzip: truncated data")
        if at + len(piece) > len(room):
            raise _too_large(len(room))
        room[at : at + len(piece)] = piece
        at, remaining_data = at + len(piece), stream.unconsumed_tail
    if stream.unused_data:
        raise _corrupt("gzip: trailing bytes")
    return at


def _snappy_into(data: memoryview, room: memoryview) -> int:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _snappy_block_into(data, room)
    if data[: len(_XERIAL_HEADER)] != _XERIAL_HEADER:
        raise _corrupt("snappy: unsupported framing version")
    out, at = 0, len(_XERIAL_HEADER)
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        at += 4
        if not 0 < size <= len(data) - at:
            raise _corrupt(f"snappy: a block of {size} bytes, but only {len(data) - at} are left")
        out += _snappy_block_into(data[at : at + size], room[out:])
        at += size
    return out


def _snappy_block_into(block: memoryview, room: memoryview) -> int:
    if cramjam.snappy.decompress_raw_len(block) > len(room):
        raise _too_large(len(room))
    return cramjam.snappy.decompress_raw_into(block, room)


def _frame_into(
    library: _FrameLibrary,
    frame: tuple[int, int],
    data: memoryview,
    room: memoryview,
    *,
    certainly: bool,
) -> int:
    bound, end = frame
    if end != len(data):
        raise _corrupt(f"the compressed frame has {end} bytes, but the data has {len(data)}")
    fits = bound <= len(room)
    if certainly and not fits:
        raise _too_large(len(room))
    try:
        return library.decompress_into(data, room)
    except cramjam.DecompressionError as error:
        if fits:
            raise
        # Many small blocks have a loose bound, so decompressing decides.
        raise TooLarge(
            ErrorCode.corrupt_message,
            f"more than {len(room)} bytes when unpacked, or damaged: {error}",
        ) from error


def _from_gzip(data: memoryview, limit: int) -> bytes:
    stream = zlib.decompressobj(_GZIP)
    data_out = stream.decompress(data, limit + 1)
    if len(data_out) > limit:
        raise _too_large(limit)
    if not stream.eof or stream.unused_data:
        raise _corrupt("gzip: truncated data or trailing bytes")
    return data_out


def _to_xerial(data: bytes) -> bytes:
    """Snappy in the framing of Java's library and all Kafka clients: blocks with lengths."""
    out = bytearray(_XERIAL_HEADER)
    for at in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK]))
        out += len(block).to_bytes(4, "big")
        out += block
    return bytes(out)


def _from_snappy(data: memoryview, limit: int) -> bytes:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _from_snappy_block(data, limit)
    out = bytearray()
    at = len(_XERIAL_HEADER)
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        at += 4
        if not 0 < size <= len(data) - at:
            raise _corrupt(f"snappy: a block of {size} bytes, but only {len(data) - at} are left")
        out += _from_snappy_block(data[at : at + size], limit - len(out))
        at += size
    return bytes(out)


def _from_snappy_block(block: memoryview, limit: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > limit:
        raise _too_large(limit)
    return bytes(cramjam.snappy.decompress_raw(block))


def _from_frames(library: _FrameLibrary, bound: int, data: memoryview, limit: int) -> memoryview:
    """Decompresses lz4 or zstd frames, which hold at most `bound` bytes."""
    if bound <= limit:
        # Into a buffer that is large enough: a growing one is copied repeatedly (19 MB took seven
        # times as long).
        buffer = bytearray(bound)
        return memoryview(buffer)[: library.decompress_into(data, buffer)]
    # Many small blocks have a loose bound, so decompressing decides: into at most the limit, in
    # pages that take memory only when they are written.
    out = mmap.mmap(-1, limit, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        return memoryview(out)[: library.decompress_into(data, out)]
    except cramjam.DecompressionError as error:
        raise _corrupt(f"more than {limit} bytes when unpacked, or damaged: {error}") from error


def _lz4_bound(data: memoryview) -> int:
    """Returns an upper bound of the uncompressed size of these lz4 frames."""
    bound = at = 0
    while at < len(data):
        if _little(data, at, 4) & ~0xF == _SKIPPABLE_MAGIC:
            at += 8 + _little(data, at + 4, 4)
            continue
        frame_size, at = _lz4_frame(data, at)
        bound += frame_size
    return bound


def _lz4_frame(data: memoryview, at: int) -> tuple[int, int]:
    """Returns an upper bound of the frame's uncompressed size, and the frame's end."""
    if _little(data, at, 4) != _LZ4_MAGIC:
        raise _corrupt(f"lz4: no frame at byte {at}")
    bound = 0
    flags = data[at + 4]
    block_size = 1 << (8 + 2 * (data[at + 5] >> 4 & 7))
    at += 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    while block := _little(data, at, 4):
        size = block & 0x7FFFFFFF
        bound += size if block >> 31 else min(block_size, size * _LZ4_RATIO)
        at += 4 + size + (4 if flags & 0x10 else 0)
    return bound, at + 4 + (4 if flags & 0x04 else 0)


def _zstd_bound(data: memoryview) -> int:
    """Returns an upper bound of the uncompressed size of these zstd frames."""
    bound = at = 0
    while at < len(data):
        if _little(data, at, 4) & ~0xF == _SKIPPABLE_MAGIC:
            at += 8 + _little(data, at + 4, 4)
            continue
        frame_size, at = _zstd_frame(data, at)
        bound += frame_size
    return bound


def _zstd_frame(data: memoryview, at: int) -> tuple[int, int]:
    """Returns an upper bound of the frame's uncompressed size, and the frame's end."""
    if _little(data, at, 4) != _ZSTD_MAGIC:
        raise _corrupt(f"zstd: no frame at byte {at}")
    flags = data[at + 4]
    single_segment = flags >> 5 & 1
    at += 6 - single_segment  # a single segment omits the window size
    at += _ZSTD_DICTIONARY_ID_SIZE[flags & 3]
    size_of_size = _ZSTD_CONTENT_SIZE_SIZE[flags >> 6] or single_segment
    content_size = _little(data, at, size_of_size) + (256 if size_of_size == 2 else 0)
    at += size_of_size
    is_last = blocks_size = 0
    while not is_last:
        block = _little(data, at, 3)
        is_last, kind, size = block & 1, block >> 1 & 3, block >> 3
        blocks_size += _ZSTD_BLOCK if kind == 2 else size
        at += 3 + (1 if kind == 1 else size)
    bound = min(content_size, blocks_size) if size_of_size else blocks_size
    return bound, at + (4 if flags & 0x04 else 0)


def _little(data: memoryview, at: int, size: int) -> int:
    if at + size > len(data):
        raise _corrupt(f"compressed data ends at byte {len(data)}, within a frame")
    return int.from_bytes(data[at : at + size], "little")


def _corrupt(message: str) -> BatchError:
    return BatchError(ErrorCode.corrupt_message, message)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(ErrorCode.corrupt_message, f"more than {limit} bytes when unpacked")
