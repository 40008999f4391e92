"""Finds differences between two logs of one partition. Pure.

Rule 1: a copy has the source's batches: the same offsets, and the same bytes except for the four of
        the leader epoch. Records are not decompressed.
Rule 2: the comparison extends as far as both answers reach. Offsets below that on only one side are
        a difference, and so are batches with other boundaries, up to the next common boundary.
Rule 3: for batches that differ, the CRC tells which side is damaged. It is computed for these only.
"""

from typing import Final, NamedTuple

import msgspec
from crc32c import crc32c
from msgspec.structs import replace

from mirror.partitions.whole_batches import Cut
from wire.record_batches.batch import CRC_START, BatchHeader

LACKS: Final = "missing in the copy"
SOURCE_LACKS: Final = "missing at the source"
DAMAGED: Final = "the copy's bytes do not match their CRC"
SOURCE_DAMAGED: Final = "the source's bytes do not match their CRC"
OTHERS: Final = "the copy has other messages than the source"
NO_BATCH: Final = "the copy's data is not a record batch"
SOURCE_NO_BATCH: Final = "the source's data is not a record batch"

_EPOCH_AT: Final = 12  # position of the leader epoch in a batch
_EPOCH_END: Final = 16


class Difference(msgspec.Struct, frozen=True):
    """The offsets from `first` to `end` differ between the sides."""

    first: int
    end: int
    reason: str

    def __str__(self) -> str:
        return f"offsets {self.first} to {self.end - 1}: {self.reason}"


class Differences(NamedTuple):
    """The differences found up to `end`."""

    end: int
    found: list[Difference]


class _Batch(NamedTuple):
    header: BatchHeader
    data: memoryview

    @property
    def first(self) -> int:
        return self.header.base_offset

    @property
    def end(self) -> int:
        return self.header.next_offset

    @property
    def is_sound(self) -> bool:
        return crc32c(self.data[CRC_START:]) == self.header.crc


def compared(source: Cut, copy: Cut, position: int) -> Differences | None:
    """The differences from `position` on; None if a side has no whole batch."""
    source_batches, copy_batches = _batches(source), _batches(copy)
    if not source_batches and not copy_batches:
        return None
    if not copy_batches:
        return _unreadable(source_batches[0], NO_BATCH) if copy.fault else None
    if not source_batches:
        return _unreadable(copy_batches[0], SOURCE_NO_BATCH) if source.fault else None
    differences: list[Difference] = []
    i = j = 0
    while i < len(source_batches) and j < len(copy_batches):
        source_batch, copy_batch = source_batches[i], copy_batches[j]
        if source_batch.end <= copy_batch.first:
            differences.append(
                Difference(max(position, source_batch.first), source_batch.end, LACKS)
            )
            i, position = i + 1, source_batch.end
        elif copy_batch.end <= source_batch.first:
            differences.append(
                Difference(max(position, copy_batch.first), copy_batch.end, SOURCE_LACKS)
            )
            j, position = j + 1, copy_batch.end
        elif (source_batch.first, source_batch.end) == (copy_batch.first, copy_batch.end):
            if reason := _difference(source_batch, copy_batch):
                differences.append(Difference(source_batch.first, source_batch.end, reason))
            i, j, position = i + 1, j + 1, source_batch.end
        else:
            first, end = (
                max(position, min(source_batch.first, copy_batch.first)),
                max(source_batch.end, copy_batch.end),
            )
            while (has_more := i < len(source_batches) and source_batches[i].first < end) or (
                j < len(copy_batches) and copy_batches[j].first < end
            ):
                if has_more:
                    i, end = i + 1, max(end, source_batches[i].end)
                else:
                    j, end = j + 1, max(end, copy_batches[j].end)
            differences.append(Difference(first, end, OTHERS))
            position = end
    return Differences(position, merged(differences))


def _batches(cut: Cut) -> list[_Batch]:
    batches, start = [], 0
    for header in cut.headers:
        batches.append(_Batch(header, cut.data[start : start + header.size]))
        start += header.size
    return batches


def _unreadable(beside: _Batch, reason: str) -> Differences:
    return Differences(beside.end, [Difference(beside.first, beside.end, reason)])


def _difference(source: _Batch, copy: _Batch) -> str:
    source_bytes, copy_bytes = bytes(source.data), bytes(copy.data)
    if (
        source_bytes[:_EPOCH_AT] == copy_bytes[:_EPOCH_AT]
        and source_bytes[_EPOCH_END:] == copy_bytes[_EPOCH_END:]
    ):
        return ""
    if not copy.is_sound:
        return DAMAGED
    return OTHERS if source.is_sound else SOURCE_DAMAGED


def merged(differences: list[Difference]) -> list[Difference]:
    """Joins adjacent differences with the same reason."""
    result: list[Difference] = []
    for difference in sorted(differences, key=lambda difference: difference.first):
        last_difference = result[-1] if result else None
        if (
            last_difference is not None
            and last_difference.reason == difference.reason
            and difference.first <= last_difference.end
        ):
            result[-1] = replace(last_difference, end=max(last_difference.end, difference.end))
        else:
            result.append(difference)
    return result


def renewed(
    known: tuple[Difference, ...], first: int, end: int, differences: list[Difference]
) -> tuple[Difference, ...]:
    """The known differences, updated after the offsets from `first` to `end` were compared
    again."""
    differences_before = [
        replace(difference, end=min(difference.end, first))
        for difference in known
        if difference.first < first
    ]
    differences_after = [
        replace(difference, first=max(difference.first, end))
        for difference in known
        if difference.end > end
    ]
    return tuple(merged([*differences_before, *differences, *differences_after]))
