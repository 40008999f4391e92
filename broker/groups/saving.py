"""What of a group is to be saved, and what waits for that.

Three things are saved: what the leader has assigned, before anybody is told; that a static member
of a stable group has another id, before it is told; that a group is empty, for which nobody waits.

Rule 1: one save is under way at a time. What came up meanwhile is in the next one.
Rule 2: what is void before it was taken is not saved; what is void when it was saved changes
        nothing. A rebalance that begins makes void what was assigned, and replacements are then
        ordinary joins.
Rule 3: where a replacement could not be saved, the member has the id and the metadata again that it
        was last saved with.
"""

from collections.abc import Mapping

import msgspec

from broker.groups.member import Member, Said
from broker.groups.values import GroupRecord


class Identity(msgspec.Struct, frozen=True):
    """What of a static member is replaced."""

    member_id: str
    said: Said


def identity_of(member: Member) -> Identity:
    return Identity(member.member_id, member.said)


class Assigned(msgspec.Struct, eq=False):
    """What the leader has assigned, in the generation that is to be completed."""

    assignments: Mapping[str, bytes]

    def to(self, member: Member) -> bytes:
        """Nothing, to whom the leader has forgotten."""
        return self.assignments.get(member.member_id, b"")


class Replaced(msgspec.Struct):
    """A static member that has another id, which is not saved yet.

    `before` is what it was last saved with, `taken` what is in the save that is under way.
    `leader_then` is the id of who led before, for a client that must not think that it leads.
    """

    before: Identity
    leader_then: str
    may_skip_assignment: bool
    taken: Identity | None = None


class Saving:
    """Of one group."""

    __slots__ = ("_under_way", "assigned", "emptied", "replaced", "under_way")

    def __init__(self) -> None:
        self.assigned: Assigned | None = None
        self.emptied: GroupRecord | None = None
        self.replaced: dict[Member, Replaced] = {}
        self.under_way = False
        self._under_way: Assigned | None = None

    def void(self) -> None:
        """A rebalance begins, or the group is gone."""
        self.assigned = None
        self.replaced.clear()

    def replace(self, member: Member, before: Identity, leader: str, *, may_skip: bool) -> None:
        """It may have been replaced before, and that not be saved either."""
        known = self.replaced.get(member)
        if known is None:
            self.replaced[member] = Replaced(before, leader, may_skip)
        else:
            known.leader_then, known.may_skip_assignment = leader, may_skip

    @property
    def wanted(self) -> bool:
        """There is something to save, and nothing under way."""
        return not self.under_way and (
            self.assigned is not None or bool(self.replaced) or self.emptied is not None
        )

    def take(self) -> GroupRecord | None:
        """It is under way. Returned is what to save, where that is not the group as it is now."""
        self.under_way = True
        self._under_way = self.assigned
        for member, replaced in self.replaced.items():
            replaced.taken = identity_of(member)
        emptied, self.emptied = self.emptied, None
        return emptied if self.assigned is None and not self.replaced else None

    def end_assigned(self) -> Assigned | None:
        """What was under way is over. Returned is what was assigned, if that was in it and
        stands."""
        self.under_way = False
        before, self._under_way = self._under_way, None
        if before is None or before is not self.assigned:
            return None
        self.assigned = None
        return before

    def end_replaced(self) -> dict[Member, Replaced]:
        """Those replacements that are saved. Who was replaced again meanwhile waits on."""
        done: dict[Member, Replaced] = {}
        for member, replaced in tuple(self.replaced.items()):
            if replaced.taken == identity_of(member):
                done[member] = self.replaced.pop(member)
            elif replaced.taken is not None:
                replaced.before, replaced.taken = replaced.taken, None
        return done
