"""What the leader of a partition knows of the other replicas. No I/O, no clock.

Rule 1: a follower's offset is what it has flushed: that is the one it fetches from.
Rule 2: committed is what every replica in sync has flushed. While a change of who is in sync is
        under way, both the old and the new ones count: either may be what the map says by now.
Rule 3: who has not caught up for a while leaves. Caught up is who has all that there was when it
        last asked.
Rule 4: who has all that is committed, and all that was there when this leader began, may join.

Specified in docs/replication-spec.md: `ServeFetch`, `ProposeInSync` (R3, R5).
"""

from collections.abc import Iterable
from math import inf
from typing import Final

import msgspec

from cluster.values import PartitionInfo

_UNKNOWN: Final = -1


class _Follower(msgspec.Struct):
    offset: int = _UNKNOWN  # what it has flushed
    asked_at: float = 0.0
    end_then: int = 0  # of the leader's log, when it asked last
    caught_up_at: float = 0.0


class Followers:
    """In one epoch of one leader."""

    __slots__ = (
        "_begins_at", "_counted", "_followers", "_leader", "_order", "_version", "in_sync",
        "proposed",
    )  # fmt: skip

    def __init__(self, info: PartitionInfo, begins_at: int, now: float) -> None:
        """`begins_at`: where the leader's log ended when it began. Who is in sync has, for now,
        just caught up."""
        self._leader = info.leader
        self._begins_at = begins_at
        self._followers = {
            each: _Follower(caught_up_at=now if each in info.isr else 0.0)
            for each in info.replicas
            if each != info.leader
        }
        self.proposed: frozenset[int] | None = None  # a change that is under way
        self._version = info.version
        self.follow(info)

    def follow(self, info: PartitionInfo) -> None:
        """The map says who is in sync, and where replicas are. If that is news, a change that was
        under way is in it, or will never be."""
        if info.version > self._version:
            self.proposed = None
        self._version = info.version
        self._order = info.replicas
        for each in info.replicas:
            if each != self._leader:
                self._followers.setdefault(each, _Follower())
        for gone in self._followers.keys() - set(info.replicas):
            del self._followers[gone]
        self.in_sync = frozenset(info.isr)
        self._count()

    def propose(self, in_sync: frozenset[int]) -> None:
        """A change is under way, until the map says something newer than what is known here."""
        self.proposed = in_sync
        self._count()

    def _count(self) -> None:
        maximal = self.in_sync | (self.proposed or frozenset())
        self._counted = [self._followers[each] for each in maximal if each in self._followers]

    # Progress

    def knows(self, broker_id: int) -> bool:
        return broker_id in self._followers

    def offset_of(self, broker_id: int) -> int:
        """What it has flushed; -1 while that is not known."""
        return self._followers[broker_id].offset

    def fetched(self, broker_id: int, offset: int, end_offset: int, now: float) -> None:
        """It asks for what follows `offset`, and the leader's log has come to `end_offset`."""
        follower = self._followers[broker_id]
        if offset >= end_offset:
            follower.caught_up_at = now
        elif offset >= follower.end_then:
            follower.caught_up_at = max(follower.caught_up_at, follower.asked_at)
        follower.offset, follower.asked_at, follower.end_then = offset, now, end_offset

    @property
    def committed(self) -> float:
        """What all of them have, the leader apart; infinite where nobody else is in sync."""
        return min((each.offset for each in self._counted), default=inf)

    # Who is in sync

    def lagging(self, end_offset: int, now: float, patience: float) -> frozenset[int]:
        """Those in sync that have not caught up for so long. Who has nothing to ask for does not
        ask, and has caught up all the same: so this is to be asked several times in that time."""
        for each in self._counted:
            if each.offset >= end_offset:
                each.caught_up_at = now
        return frozenset(
            each
            for each in self.in_sync & self._followers.keys()
            if now - self._followers[each].caught_up_at > patience
        )

    def may_join(self, broker_id: int, committed: int) -> bool:
        """Whether it is not in sync, and could be."""
        offset = self._followers[broker_id].offset
        return (
            broker_id not in self.in_sync
            and self.proposed is None
            and offset >= max(committed, self._begins_at)
        )

    def ordered(self, in_sync: Iterable[int]) -> tuple[int, ...]:
        """As replicas are listed."""
        wanted = set(in_sync)
        return tuple(each for each in self._order if each in wanted)
