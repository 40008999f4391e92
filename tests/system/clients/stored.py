"""Record batches as stored in a partition's segments, read without any of Penstock's code."""

import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec

# base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base timestamp,
# maximal timestamp, producer id, producer epoch, base sequence, count
HEADER = struct.Struct(">qiibIhiqqqhii")
LENGTH_STARTS_AFTER = 12


class StoredBatch(msgspec.Struct, frozen=True):
    file: Path
    position: int
    size: int
    base_offset: int
    last_offset: int
    codec: int
    count: int
    producer_id: int


def segments(partition_dir: Path) -> list[Path]:
    return sorted(partition_dir.glob("*.log"))


def stored_batches(partition_dir: Path) -> Iterator[StoredBatch]:
    """Return all whole batches of a partition's segments, oldest first."""
    for file in segments(partition_dir):
        content = file.read_bytes()
        position = 0
        while position + HEADER.size <= len(content):
            base, length, _, _, _, attributes, delta, _, _, producer, _, _, count = (
                HEADER.unpack_from(content, position)
            )
            size = LENGTH_STARTS_AFTER + length
            if size < HEADER.size or position + size > len(content):
                break
            yield StoredBatch(
                file, position, size, base, base + delta, attributes & 7, count, producer
            )
            position += size
