"""Re-reads a stored segment piece by piece, and checks it for damage.

It is read from the disk if the file system supports that (`O_DIRECT`): the page cache may be sound
where the disk is not, and nothing in frequent use is evicted. Otherwise it is read as any file, and
the pages are dropped again (`DONTNEED`). Nothing is written.

A segment may be removed or replaced while it is read. Damage found in it is then irrelevant, and
not reported.
"""

import contextlib
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from broker.storage.segments.batches import find_valid
from broker.storage.segments.files import OpenFile, check_there
from wire.record_batches.batch import CRC_START, HEADER_SIZE, MAGIC, BatchHeader, read_header

PIECE: Final = 1 << 18
_BLOCK: Final = 4096


class Damage(NamedTuple):
    """Offsets without a readable batch."""

    first: int
    offsets: int
    reason: str


def scrub(path: Path, base: int, end: int, *, gaps: bool) -> Iterator[int | Damage]:
    """Yields the bytes of each piece as it is read, and each damaged range as it is found.

    The segment has the offsets from `base` up to `end`, or with `gaps` some of them. Nothing after
    `end` is checked. Raises OSError: FileNotFoundError if it is gone.
    """
    position, offset = 0, base
    while True:
        file = OpenFile(path)
        damage_reason: str | None = None
        for piece in _sound_pieces(path, position, offset, end, gaps=gaps):
            if isinstance(piece, int):
                yield piece
            else:
                position, offset, damage_reason = piece
        if damage_reason is None or offset >= end:
            return
        size = os.fstat(file.fd).st_size
        located_batch = find_valid(file, position, size, offset - 1)
        check_there(file)
        if located_batch is None or located_batch.header.base_offset >= end:
            yield Damage(offset, end - offset, damage_reason)
            return
        yield Damage(offset, located_batch.header.base_offset - offset, damage_reason)
        position, offset = located_batch.position, located_batch.header.base_offset


_Place = tuple[int, int, str | None]  # byte and offset, and the error there


def _sound_pieces(
    path: Path, position: int, offset: int, end: int, *, gaps: bool
) -> Iterator[int | _Place]:
    """Read on as long as everything is sound; finally, where that ended and why, None at the end.

    Holds no more than a piece, whatever size a header claims.
    """
    held_bytes = bytearray()
    held_position = position
    batch: BatchHeader | None = None  # of the batch at `position`, once its header was read
    crc = remaining_bytes = 0
    for piece in _pieces(path, position):
        held_bytes += piece
        yield len(piece)
        chunk_position = 0
        while offset < end:
            fault = ""
            if batch is None:
                if len(held_bytes) - chunk_position < HEADER_SIZE:
                    break
                header = read_header(held_bytes, chunk_position)
                if (
                    header.magic != MAGIC
                    or header.size < HEADER_SIZE
                    or header.last_offset_delta < 0
                ):
                    fault = "no batch header"
                elif header.base_offset != offset and (header.base_offset < offset or not gaps):
                    fault = f"unexpected base offset {header.base_offset}"
                elif header.base_offset >= end:
                    offset = end
                    break
                batch, crc, remaining_bytes = header, 0, header.size - CRC_START
                chunk_position += CRC_START
            if not fault:
                count = min(remaining_bytes, len(held_bytes) - chunk_position)
                crc = crc32c(memoryview(held_bytes)[chunk_position : chunk_position + count], crc)
                chunk_position += count
                remaining_bytes -= count
                if remaining_bytes:
                    break
                if crc != batch.crc:
                    fault = "the CRC of the batch does not match its bytes"
            if fault:
                yield position, offset, f"{path.name}, byte {position}: {fault}"
                return
            offset = batch.next_offset
            batch = None
            position = held_position + chunk_position
        del held_bytes[:chunk_position]
        held_position += chunk_position
        if offset >= end:
            break
    is_short = offset < end and not (gaps and batch is None and not held_bytes)
    yield position, offset, f"{path.name} ends at byte {position}" if is_short else None


def _pieces(path: Path, position: int) -> Iterator[memoryview]:
    """The file's bytes from `position` on."""
    is_direct, fd = True, -1
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError:  # not every file system supports it
        is_direct, fd = False, os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    buffer = mmap.mmap(-1, PIECE)  # aligned, as it must be
    try:
        block_start = position // _BLOCK * _BLOCK
        while True:
            try:
                count = os.preadv(fd, [buffer], block_start)
            except OSError:
                if not is_direct:
                    raise
                os.close(fd)
                is_direct, fd = False, os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                continue
            if block_start + count > position:
                with memoryview(buffer) as view, view[position - block_start : count] as piece:
                    yield piece
                position = block_start + count
            if not is_direct:
                with contextlib.suppress(OSError):
                    os.posix_fadvise(fd, block_start, count, os.POSIX_FADV_DONTNEED)
            if count < PIECE:
                return
            block_start += count
    finally:
        os.close(fd)
        buffer.close()
