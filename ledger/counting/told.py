"""Up to where a partition was counted by whoever led it, as far as the ledger has it. Pure.

Rule 1: each counter tells a partition's offsets in ascending order and leaves out none, and goes on
        where the ledger shows that the one before it had come to. So all that lies below the
        furthest passage was told.
Rule 2: what was told under a leader epoch counts up to where that epoch ends in the log as it is
        now: beyond that, the log has something else, or nothing.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from ledger.counting.journal import PartitionKey

Json = Mapping[str, Any]


class EpochStart(NamedTuple):
    """What lies from this offset on is of this leader epoch, up to the next."""

    leader_epoch: int
    first: int


class History(NamedTuple):
    """Which leader epochs a log is of, ascending, and where it ends."""

    epochs: Sequence[EpochStart]
    end: int

    def after(self, leader_epoch: int) -> EpochStart | None:
        """The next epoch."""
        at = bisect_right(self.epochs, leader_epoch, key=attrgetter("leader_epoch"))
        return self.epochs[at] if at < len(self.epochs) else None

    def end_of(self, leader_epoch: int) -> int:
        """Up to where what was told under that epoch can still be in the log."""
        following = self.after(leader_epoch)
        return self.end if following is None else min(following.first, self.end)


class Told(NamedTuple):
    """Everything before `next_offset` is in the ledger; the last of it was told by this journal."""

    next_offset: int
    leader_epoch: int
    source: str


def furthest(
    entries: Iterable[Json], histories: Mapping[PartitionKey, History]
) -> dict[PartitionKey, Told]:
    """Of these partitions, as far as these entries speak of them."""
    found: dict[PartitionKey, Told] = {}
    for entry in entries:
        if entry["tier"] != "broker":
            continue
        for passage in entry["passages"]:
            key = PartitionKey(passage["topic"], passage["topic_id"], passage["partition"])
            history, epoch = histories.get(key), passage["leader_epoch"]
            ends = [each["first"] + each["count"] for each in passage["offsets"] if each["count"]]
            if history is None or epoch < 0 or not ends:
                continue
            told = Told(min(max(ends), history.end_of(epoch)), epoch, entry["header"]["source"])
            if key not in found or found[key].next_offset < told.next_offset:
                found[key] = told
    return found


def furthest_copied(
    entries: Iterable[Json], keys: Collection[PartitionKey]
) -> dict[PartitionKey, int]:
    """Up to where mirrors have said that these were copied."""
    found: dict[PartitionKey, int] = {}
    for entry in entries:
        if entry["tier"] != "mirror":
            continue
        for passage in entry["passages"]:
            key = PartitionKey(passage["topic"], passage["topic_id"], passage["partition"])
            ends = [each["first"] + each["count"] for each in passage["offsets"]]
            if key in keys and ends:
                found[key] = max(found.get(key, 0), *ends)
    return found
