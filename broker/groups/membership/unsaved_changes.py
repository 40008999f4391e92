"""The unsaved changes of a group, and the answers that wait for them.

Three things are saved: the leader's assignment, before any member gets it; the new id of a static
member of a stable group, before the member gets it; and that a group is empty, for which no client
waits.

Rule 1: one save is under way at a time. Later changes are in the next one.
Rule 2: a change that becomes void before it is taken is not saved; one that is void when it has
        been saved has no effect. A rebalance makes an assignment void, and turns replacements into
        ordinary joins.
Rule 3: if a replacement could not be saved, the member returns to the id and metadata that it was
        last saved with.
"""

from collections.abc import Mapping

import msgspec

from broker.groups.membership.member import Member, MemberDetails
from broker.groups.membership.values import GroupRecord


class Identity(msgspec.Struct, frozen=True):
    """The parts of a static member that a replacement changes."""

    member_id: str
    details: MemberDetails


def identity_of(member: Member) -> Identity:
    return Identity(member.member_id, member.details)


class Assigned(msgspec.Struct, eq=False):
    """The leader's assignment for the generation that is being completed."""

    assignments: Mapping[str, bytes]

    def to(self, member: Member) -> bytes:
        """Returns the assignment of a member; empty if the leader has omitted the member."""
        return self.assignments.get(member.member_id, b"")


class Replaced(msgspec.Struct):
    """A static member with a new id that is not saved yet.

    `before` is what it was last saved with, `taken` is its part of the save that is under way.
    `leader_then` is the previous leader's id, for a client that must not believe that it leads.
    """

    before: Identity
    leader_then: str
    may_skip_assignment: bool
    taken: Identity | None = None


class UnsavedChanges:
    __slots__ = ("_under_way", "assigned", "emptied", "replaced", "under_way")

    def __init__(self) -> None:
        self.assigned: Assigned | None = None
        self.emptied: GroupRecord | None = None
        self.replaced: dict[Member, Replaced] = {}
        self.under_way = False
        self._under_way: Assigned | None = None

    def void(self) -> None:
        """Discards the unsaved assignment and replacements, because a rebalance begins or the group
        ends."""
        self.assigned = None
        self.replaced.clear()

    def replace(self, member: Member, before: Identity, leader: str, *, may_skip: bool) -> None:
        """Notes that a static member was replaced, perhaps before an earlier replacement was
        saved."""
        replacement = self.replaced.get(member)
        if replacement is None:
            self.replaced[member] = Replaced(before, leader, may_skip)
        else:
            replacement.leader_then, replacement.may_skip_assignment = leader, may_skip

    @property
    def wanted(self) -> bool:
        """Whether there are unsaved changes, and no save is in progress."""
        return not self.under_way and (
            self.assigned is not None or bool(self.replaced) or self.emptied is not None
        )

    def take(self) -> GroupRecord | None:
        """Begins a save. Returns the record, if it differs from the group's current state."""
        self.under_way = True
        self._under_way = self.assigned
        for member, replacement in self.replaced.items():
            replacement.taken = identity_of(member)
        record, self.emptied = self.emptied, None
        return record if self.assigned is None and not self.replaced else None

    def end_assigned(self) -> Assigned | None:
        """Ends the save; returns the assignment, if it was saved and is still valid."""
        self.under_way = False
        old_assignment, self._under_way = self._under_way, None
        if old_assignment is None or old_assignment is not self.assigned:
            return None
        self.assigned = None
        return old_assignment

    def end_replaced(self) -> dict[Member, Replaced]:
        """Returns the saved replacements. A member that was replaced again meanwhile still
        waits."""
        saved_replacements: dict[Member, Replaced] = {}
        for member, replacement in tuple(self.replaced.items()):
            if replacement.taken == identity_of(member):
                saved_replacements[member] = self.replaced.pop(member)
            elif replacement.taken is not None:
                replacement.before, replacement.taken = replacement.taken, None
        return saved_replacements
