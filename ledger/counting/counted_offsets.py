"""Finds, in ledger entries, the offset up to which a partition's leaders have counted it. Pure.

Rule 1: each counter reports a partition's offsets in ascending order without gaps, and continues
        where the previous counter stopped according to the ledger. So everything below the furthest
        passage is counted.
Rule 2: a report under a leader epoch is valid up to the end of that epoch in the present log:
        beyond it the log has other records, or none.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from ledger.counting.journal import PartitionKey

Json = Mapping[str, Any]


class EpochStart(NamedTuple):
    """A leader epoch and its first offset."""

    leader_epoch: int
    first: int


class History(NamedTuple):
    """The leader epochs of a log, in ascending order, and the end of the log."""

    epochs: Sequence[EpochStart]
    end: int

    def after(self, leader_epoch: int) -> EpochStart | None:
        """Returns the epoch that follows this one; None if this is the last."""
        index = bisect_right(self.epochs, leader_epoch, key=attrgetter("leader_epoch"))
        return self.epochs[index] if index < len(self.epochs) else None

    def end_of(self, leader_epoch: int) -> int:
        """Returns the offset up to which reports under this epoch are still valid."""
        next_epoch = self.after(leader_epoch)
        return self.end if next_epoch is None else min(next_epoch.first, self.end)


class CountedUpTo(NamedTuple):
    """A partition's progress: everything before `next_offset` is in the ledger; the last entry
    belongs to journal `source`."""

    next_offset: int
    leader_epoch: int
    source: str


def furthest(
    entries: Iterable[Json], histories: Mapping[PartitionKey, History]
) -> dict[PartitionKey, CountedUpTo]:
    """Returns the offsets up to which these partitions are counted, according to these entries."""
    progress: dict[PartitionKey, CountedUpTo] = {}
    for entry in entries:
        if entry["tier"] != "broker":
            continue
        for passage in entry["passages"]:
            key = PartitionKey(passage["topic"], passage["topic_id"], passage["partition"])
            history, epoch = histories.get(key), passage["leader_epoch"]
            ends = [part["first"] + part["count"] for part in passage["offsets"] if part["count"]]
            if history is None or epoch < 0 or not ends:
                continue
            end = min(max(ends), history.end_of(epoch))
            if key not in progress or progress[key].next_offset < end:
                progress[key] = CountedUpTo(end, epoch, entry["header"]["source"])
    return progress


def furthest_copied(
    entries: Iterable[Json], keys: Collection[PartitionKey]
) -> dict[PartitionKey, int]:
    """Returns the offsets up to which mirrors copied these partitions, according to these
    entries."""
    offsets: dict[PartitionKey, int] = {}
    for entry in entries:
        if entry["tier"] != "mirror":
            continue
        for passage in entry["passages"]:
            key = PartitionKey(passage["topic"], passage["topic_id"], passage["partition"])
            ends = [part["first"] + part["count"] for part in passage["offsets"]]
            if key in keys and ends:
                offsets[key] = max(offsets.get(key, 0), *ends)
    return offsets
