"""Splits the records of one partition in a fetch response into whole batches. Pure.

Only headers are read: batches are not decompressed and no CRC is computed, since the target does
that as for any producer. Each batch must start where the previous one ended.
"""

from typing import Final

import msgspec

from mirror.partitions.gaps import Gap
from wire.record_batches.batch import HEADER, HEADER_SIZE, LENGTH_PREFIX, MAGIC, BatchHeader

_LEAST: Final = HEADER_SIZE - LENGTH_PREFIX
_LARGEST: Final = 512 * 1024 * 1024  # a larger batch is a fault


class Cut(msgspec.Struct):
    """Consecutive whole batches."""

    data: memoryview
    next_offset: int
    headers: list[BatchHeader] = []
    gap: Gap | None = None  # after these batches
    fault: str = ""  # why the data after these batches cannot be copied
    needs: int = 0  # size of the first batch, if it is incomplete


def cut(records: memoryview, position: int, *, gaps: bool) -> Cut:
    """The whole batches from `position` on. `gaps`: the source compacts, so offsets may be missing
    anywhere."""
    size, first, start = len(records), -1, 0
    result = Cut(records[:0], position)
    unpack, make = HEADER.unpack_from, BatchHeader._make
    expected = position
    while start + HEADER_SIZE <= size:
        header = make(unpack(records, start))
        base, length, _, magic, *_ = header
        end = start + LENGTH_PREFIX + length
        next_offset = base + header.last_offset_delta + 1
        if magic != MAGIC or not _LEAST <= length <= _LARGEST or next_offset <= base or base < 0:
            result.fault = _fault(header)
            break
        if end > size:
            if not result.headers:
                result.needs = header.size
            break
        if next_offset <= position:  # before the requested offset
            start = end
            continue
        if base > expected and not gaps:
            result.gap = Gap(expected, base)
            break
        if first < 0:
            first = start
        result.headers.append(header)
        start, expected = end, next_offset
    if first >= 0:
        result.data, result.next_offset = records[first:start], expected
    return result


def _fault(header: BatchHeader) -> str:
    if header.magic in {0, 1}:
        return (
            f"at offset {header.base_offset} the source has record format {header.magic}: only "
            f"format {MAGIC} (Kafka 0.11 and newer) can be copied"
        )
    return f"the source's data at offset {header.base_offset} is not a record batch"
