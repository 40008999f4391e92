"""Decides which followers are in sync, and what is committed, from what a partition's leader knows
of its replicas. No I/O, no clock.

Rule 1: a follower's offset is its flushed end: it fetches from there.
Rule 2: committed is what every in-sync replica has flushed. While a change of the in-sync set is
        under way, both the old and the new members count: the map may have either by now.
Rule 3: a replica that has not caught up for a while leaves. It has caught up if it has everything
        that the log had when the replica last asked.
Rule 4: a replica may join that has everything committed, and everything that existed when this
        leader's epoch began.

Specified in docs/replication-spec.md: `ServeFetch`, `ProposeInSync` (R3, R5).
"""

from collections.abc import Iterable
from math import inf
from typing import Final

import msgspec

from cluster.values import PartitionInfo

_UNKNOWN: Final = -1


class _Follower(msgspec.Struct):
    offset: int = _UNKNOWN  # its flushed end
    asked_at: float = 0.0
    end_then: int = 0  # the leader's log end at its last fetch
    caught_up_at: float = 0.0


class Followers:
    __slots__ = (
        "_begins_at", "_counted", "_followers", "_leader", "_order", "_version", "in_sync",
        "proposed",
    )  # fmt: skip

    def __init__(self, info: PartitionInfo, begins_at: int, now: float) -> None:
        """`begins_at`: the log's end when the epoch began. In-sync replicas count as caught up."""
        self._leader = info.leader
        self._begins_at = begins_at
        self._followers = {
            replica: _Follower(caught_up_at=now if replica in info.isr else 0.0)
            for replica in info.replicas
            if replica != info.leader
        }
        self.proposed: frozenset[int] | None = None  # the change under way
        self._version = info.version
        self.follow(info)

    def follow(self, info: PartitionInfo) -> None:
        """Applies the replicas and the in-sync set of the map. A newer state of the map settles the
        proposed change: it includes the change or rules it out."""
        if info.version > self._version:
            self.proposed = None
        self._version = info.version
        self._order = info.replicas
        for replica in info.replicas:
            if replica != self._leader:
                self._followers.setdefault(replica, _Follower())
        for broker_id in self._followers.keys() - set(info.replicas):
            del self._followers[broker_id]
        self.in_sync = frozenset(info.isr)
        self._count()

    def propose(self, in_sync: frozenset[int]) -> None:
        """Notes a proposed change, which is pending until the map has a newer state."""
        self.proposed = in_sync
        self._count()

    def _count(self) -> None:
        maximal_isr = self.in_sync | (self.proposed or frozenset())
        self._counted = [
            self._followers[replica] for replica in maximal_isr if replica in self._followers
        ]

    # Progress

    def knows(self, broker_id: int) -> bool:
        return broker_id in self._followers

    def offset_of(self, broker_id: int) -> int:
        """Returns the end of what the replica has flushed; -1 while it is unknown."""
        return self._followers[broker_id].offset

    def fetched(self, broker_id: int, offset: int, end_offset: int, now: float) -> None:
        """Notes that the follower asks for `offset`, while the leader's log ends at
        `end_offset`."""
        follower = self._followers[broker_id]
        if offset >= end_offset:
            follower.caught_up_at = now
        elif offset >= follower.end_then:
            follower.caught_up_at = max(follower.caught_up_at, follower.asked_at)
        follower.offset, follower.asked_at, follower.end_then = offset, now, end_offset

    @property
    def committed(self) -> float:
        """The offset up to which all other in-sync replicas have flushed; infinite without
        others."""
        return min((follower.offset for follower in self._counted), default=inf)

    # In-sync set

    def lagging(self, end_offset: int, now: float, patience: float) -> frozenset[int]:
        """Returns in-sync replicas that have not caught up for `patience`. A caught-up replica with
        nothing to fetch does not ask, and counts as caught up: so call this several times within
        `patience`."""
        for follower in self._counted:
            if follower.offset >= end_offset:
                follower.caught_up_at = now
        return frozenset(
            follower
            for follower in self.in_sync & self._followers.keys()
            if now - self._followers[follower].caught_up_at > patience
        )

    def may_join(self, broker_id: int, committed: int) -> bool:
        offset = self._followers[broker_id].offset
        return (
            broker_id not in self.in_sync
            and self.proposed is None
            and offset >= max(committed, self._begins_at)
        )

    def ordered(self, in_sync: Iterable[int]) -> tuple[int, ...]:
        new_isr = set(in_sync)
        return tuple(replica for replica in self._order if replica in new_isr)
