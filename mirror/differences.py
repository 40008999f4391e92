"""What two logs show of one partition, held against each other: where they are not the same. Pure.

Rule 1: a copy has the source's batches: the same offsets, and the same bytes but for the four of
        the leader epoch. Records are not opened.
Rule 2: compared is as far as both answers reach. What either lacks below that is a difference, and
        so are batches that do not begin and end where the other's do, up to where they meet again.
Rule 3: of batches that differ, the CRC says whose is damaged. It is computed for those alone.
"""

from typing import Final, NamedTuple

import msgspec
from crc32c import crc32c
from msgspec.structs import replace

from mirror.batches import Cut
from wire.batch import CRC_START, BatchHeader

LACKS: Final = "the copy lacks it"
SOURCE_LACKS: Final = "the source lacks it"
DAMAGED: Final = "the copy's bytes are not what their CRC says"
SOURCE_DAMAGED: Final = "the source's bytes are not what their CRC says"
OTHERS: Final = "the copy has other messages there than the source"
NO_BATCH: Final = "what the copy shows there is no record batch"
SOURCE_NO_BATCH: Final = "what the source shows there is no record batch"

_EPOCH_AT: Final = 12  # of a batch's bytes, and four of them
_EPOCH_END: Final = 16


class Difference(msgspec.Struct, frozen=True):
    """The offsets from `first` up to `end` are not the same on both sides."""

    first: int
    end: int
    reason: str

    def __str__(self) -> str:
        return f"offsets {self.first} to {self.end - 1}: {self.reason}"


class Stretch(NamedTuple):
    """Compared up to `end`."""

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


def compared(source: Cut, copy: Cut, position: int) -> Stretch | None:
    """What both show from `position` on; None if not even one batch of each is there."""
    theirs, ours = _batches(source), _batches(copy)
    if not theirs and not ours:
        return None
    if not ours:
        return _unreadable(theirs[0], NO_BATCH) if copy.fault else None
    if not theirs:
        return _unreadable(ours[0], SOURCE_NO_BATCH) if source.fault else None
    found: list[Difference] = []
    i = j = 0
    while i < len(theirs) and j < len(ours):
        one, other = theirs[i], ours[j]
        if one.end <= other.first:
            found.append(Difference(max(position, one.first), one.end, LACKS))
            i, position = i + 1, one.end
        elif other.end <= one.first:
            found.append(Difference(max(position, other.first), other.end, SOURCE_LACKS))
            j, position = j + 1, other.end
        elif (one.first, one.end) == (other.first, other.end):
            if reason := _difference(one, other):
                found.append(Difference(one.first, one.end, reason))
            i, j, position = i + 1, j + 1, one.end
        else:
            first, end = max(position, min(one.first, other.first)), max(one.end, other.end)
            while (more := i < len(theirs) and theirs[i].first < end) or (
                j < len(ours) and ours[j].first < end
            ):
                if more:
                    i, end = i + 1, max(end, theirs[i].end)
                else:
                    j, end = j + 1, max(end, ours[j].end)
            found.append(Difference(first, end, OTHERS))
            position = end
    return Stretch(position, merged(found))


def _batches(cut: Cut) -> list[_Batch]:
    found, at = [], 0
    for header in cut.headers:
        found.append(_Batch(header, cut.data[at : at + header.size]))
        at += header.size
    return found


def _unreadable(beside: _Batch, reason: str) -> Stretch:
    return Stretch(beside.end, [Difference(beside.first, beside.end, reason)])


def _difference(source: _Batch, copy: _Batch) -> str:
    theirs, ours = bytes(source.data), bytes(copy.data)
    if theirs[:_EPOCH_AT] == ours[:_EPOCH_AT] and theirs[_EPOCH_END:] == ours[_EPOCH_END:]:
        return ""
    if not copy.is_sound:
        return DAMAGED
    return OTHERS if source.is_sound else SOURCE_DAMAGED


def merged(found: list[Difference]) -> list[Difference]:
    """Those that lie beside each other, for the same reason, as one."""
    result: list[Difference] = []
    for each in sorted(found, key=lambda each: each.first):
        last = result[-1] if result else None
        if last is not None and last.reason == each.reason and each.first <= last.end:
            result[-1] = replace(last, end=max(last.end, each.end))
        else:
            result.append(each)
    return result


def renewed(
    known: tuple[Difference, ...], first: int, end: int, found: list[Difference]
) -> tuple[Difference, ...]:
    """What is known, when these offsets were looked at again, and that was found."""
    before = [replace(each, end=min(each.end, first)) for each in known if each.first < first]
    behind = [replace(each, first=max(each.first, end)) for each in known if each.end > end]
    return tuple(merged([*before, *found, *behind]))
