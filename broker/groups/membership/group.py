"""One group of Kafka's classic protocol: the coordinator's state machine. No clock, no I/O.

Members join; when all have, or time is up, a generation begins: one member, the leader, gets the
list of all others, and assigns to each what it is to read; each syncs, and gets its assignment.
Then they send heartbeats and commits, until a member comes, leaves, or is silent for its session
timeout: then all rejoin. Assignments and metadata are bytes that only members understand.

Rule 1: a waiting client passes a callback of its own. It is called once, with the outcome, unless
        `gone` has reported that the client disconnected. It is called when the group is consistent
        again, so it may call the group.
Rule 2: no member gets its assignment before that is saved (`take_save`, `saved`, `not_saved`). A
        rebalance that begins meanwhile takes precedence.
Rule 3: a waiting member need not send heartbeats, and has a full session timeout afterwards. Only
        one that joins for the first time waits for at most five minutes: it may have disconnected,
        and rejoined under another id.
Rule 4: a commit is accepted from members of this generation, unless the rebalance is completing;
        and without a member id while there are no members.
Rule 5: the cost of a heartbeat, a commit and a join does not depend on the number of members. Work
        for all members is done once in a generation.

The rules are those of Kafka's coordinator (3.2 to 3.9), with these differences: a static member
that returns finds room in a full group, since it takes no additional place, and updates its client
id and host; if two requests of one member wait for the same, the earlier one is answered
REBALANCE_IN_PROGRESS, rather than never; ids that were assigned and not used yet are bounded like
members; a replacement that is saved after a rebalance has begun waits for that; and bytes are
bounded.

Belongs to the event loop. A crash loses what was not saved: members keep their generation, or are
told that it is unknown, and rejoin.
"""

from collections.abc import Callable, Iterable
from typing import Final
from uuid import uuid4

from broker.groups.membership.admission import refusal
from broker.groups.membership.deadlines import Deadlines
from broker.groups.membership.member import Member, details_of, member_of
from broker.groups.membership.members import Members, Waiting
from broker.groups.membership.queued_answers import Answers
from broker.groups.membership.unsaved_changes import Assigned, UnsavedChanges, identity_of
from broker.groups.membership.values import (
    NO_MEMBER,
    GroupDescription,
    GroupRecord,
    GroupRules,
    JoinAnswer,
    Joining,
    JoinOutcome,
    LeaveOutcome,
    Leaving,
    State,
    SyncAnswer,
    Syncing,
    SyncOutcome,
)
from wire.errors import ErrorCode

_NEW_MEMBER_SECONDS: Final = 300.0
_LONGEST_REASON: Final = 255
_GIVEN_OUT: Final = 400  # bytes of an assigned id, about

Unique = Callable[[], object]
"""Makes the unique part of a member id."""


class Group:
    """The state of one group. `reason` is the cause of the last rebalance, partly in the client's
    words."""

    __slots__ = (
        "_answers", "_delayed_until", "_initial", "_members", "_newcomer", "_rebalance_at",
        "_rules", "_saving", "_sessions", "_sync_at", "_unique", "generation", "protocol",
        "protocol_type", "reason", "state",
    )  # fmt: skip

    def __init__(self, rules: GroupRules, *, unique: Unique = uuid4) -> None:
        self.state = State.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.reason = ""
        self._rules = rules
        self._unique = unique
        self._members = Members()
        self._saving = UnsavedChanges()
        self._sessions: Deadlines[Member | str] = Deadlines()  # of members, and of assigned ids
        self._initial = False  # it was empty before, and waits for more members
        self._newcomer = False  # and more have come
        self._delayed_until = 0.0  # but no longer than this
        self._rebalance_at: float | None = None
        self._sync_at: float | None = None
        self._answers = Answers()

    @classmethod
    def from_record(
        cls, record: GroupRecord, rules: GroupRules, now: float, *, unique: Unique = uuid4
    ) -> "Group":
        """Loads a saved group. All members get a full session timeout."""
        group = cls(rules, unique=unique)
        group.generation = record.generation
        group.protocol_type = record.protocol_type
        for member_record in record.members:
            member = member_of(member_record, record.protocol or "")
            group._members.add(member)
            group._beat(member, now)
        if record.members:
            group.protocol = record.protocol or ""
            group.state = State.STABLE
            leader = group._members.get(record.leader or NO_MEMBER)
            group._members.leader = leader or group._members.leader
        if len(group._members) > rules.most_members:
            group._prepare(now, "it has more members than are allowed")
        return group

    def __len__(self) -> int:
        return len(self._members)

    @property
    def size(self) -> int:
        """The approximate size of members' metadata and of assigned ids, in bytes."""
        return self._members.size + _GIVEN_OUT * len(self._members.pending)

    @property
    def is_idle(self) -> bool:
        """Whether all assigned member ids have expired, and everything is saved."""
        return not (self._members.pending or self._saving.under_way or self._saving.wanted)

    @property
    def leader(self) -> str:
        """The leader's member id; empty without a leader."""
        leader = self._members.leader
        return NO_MEMBER if leader is None else leader.member_id

    # Time

    def next_time(self) -> float | None:
        """Returns the next time at which `advance` must be called; None if no deadline is set."""
        deadlines = (self._rebalance_at, self._sync_at, self._sessions.next_time())
        return min((moment for moment in deadlines if moment is not None), default=None)

    def advance(self, now: float) -> None:
        while (due_member := self._sessions.take(now)) is not None:
            if isinstance(due_member, Member):
                self._expire(due_member, now)
            else:
                self._members.pending.discard(due_member)
                self._try_to_complete(now)
        if self._rebalance_at is not None and self._rebalance_at <= now:
            self._rebalance_due(self._rebalance_at, now)
        if self._sync_at is not None and self._sync_at <= now:
            self._sync_due(now)
        self._answers.give()

    def _expire(self, member: Member, now: float) -> None:
        if member.waits and not member.is_new:
            return  # it has another deadline after it has waited
        self._remove(member, now, f"the session of member {member.member_id} expired")

    def _rebalance_due(self, at: float, now: float) -> None:
        if self._initial and self._newcomer and at < self._delayed_until:
            self._newcomer = False
            self._rebalance_at = min(at + self._rules.initial_delay, self._delayed_until)
        else:
            self._complete(now)

    def _sync_due(self, now: float) -> None:
        """Remove members that have joined but do not ask for their assignments."""
        self._sync_at = None
        late_members = self._members.to_sync
        for member in late_members:
            self._discard(member)
        if late_members:
            self._prepare(now, f"{len(late_members)} members did not sync in time")

    def _beat(self, member: Member, now: float) -> None:
        joins_first = member.is_new and member.waits
        timeout = _NEW_MEMBER_SECONDS if joins_first else member.details.session_timeout
        self._sessions.put(member, now + timeout)

    # Joining

    def join(self, joining: Joining, answer: JoinAnswer, now: float) -> None:
        """Lets a member join; answers at once, or when the generation begins."""
        code = refusal(joining, self._rules, self.state, self._members, self.protocol_type)
        if code is ErrorCode.group_max_size_reached:
            self._remove_rejected(joining, now)
            self._answers.refuse_join(answer, code)
        elif code is not ErrorCode.none:
            self._answers.refuse_join(answer, code, joining.member_id)
        elif joining.member_id == NO_MEMBER:
            self._join_unknown(joining, answer, now)
        else:
            self._join_known(joining, answer, now)
        self._try_to_complete(now)
        self._answers.give()

    def _remove_rejected(self, joining: Joining, now: float) -> None:
        """Remove a member whose join was rejected: its client has been told that it is none."""
        self._drop_pending(joining.member_id)
        member = self._members.get(joining.member_id)
        if member is not None:
            self._remove(member, now, f"there is no room for member {member.member_id}")

    def _join_unknown(self, joining: Joining, answer: JoinAnswer, now: float) -> None:
        member_id = f"{joining.instance_id or joining.client_id}-{self._unique()}"
        old_member = self._members.instance(joining.instance_id)
        if old_member is not None:
            self._replace(old_member, member_id, joining, answer, now)
        elif joining.instance_id is None and joining.needs_member_id:
            self._members.pending.add(member_id)
            self._sessions.put(member_id, now + joining.session_timeout)
            self._answers.refuse_join(answer, ErrorCode.member_id_required, member_id)
        else:
            self._add(member_id, joining, answer, now)

    def _join_known(self, joining: Joining, answer: JoinAnswer, now: float) -> None:
        """A join with the id of a member, or with an assigned id."""
        if joining.member_id in self._members.pending and joining.instance_id is None:
            self._drop_pending(joining.member_id)
            self._add(joining.member_id, joining, answer, now)
            return
        member = self._member(joining.member_id, joining.instance_id)
        if not isinstance(member, Member):
            self._answers.refuse_join(answer, member, joining.member_id)
            return
        leads, is_same = (
            member is self._members.leader,
            member.details.protocols == joining.protocols,
        )
        is_completing, is_stable = self.state is State.COMPLETING, self.state is State.STABLE
        if is_same and (is_completing or (is_stable and not leads)):
            self._beat(member, now)
            self._answers.tell(answer, self._joined(member))  # the answer may have been lost
        else:
            # A leader may rejoin for a reason outside its metadata, such as a topic that has grown.
            event = "rejoins as the leader" if is_same else "rejoins with different metadata"
            member.knows_id = True
            self._members.update(member, details_of(joining))
            self._wait_to_join(member, answer, now)
            self._prepare(now, f"member {member.member_id} {event}{_why(joining.reason)}")

    def _add(self, member_id: str, joining: Joining, answer: JoinAnswer, now: float) -> None:
        member = Member(member_id, joining.instance_id, details_of(joining))
        member.knows_id = joining.member_id == member_id
        self._newcomer = True
        if not len(self._members):
            self.protocol_type = joining.protocol_type
        self._members.add(member)
        self._wait_to_join(member, answer, now)
        self._prepare(now, f"member {member_id} joins{_why(joining.reason)}")

    def _replace(
        self, member: Member, member_id: str, joining: Joining, answer: JoinAnswer, now: float
    ) -> None:
        """A static member returns without its id. In a stable group it takes its old place with the
        new id, once that is saved, and no other member rejoins."""
        self._answers.refuse_join(self._members.take_join(member), ErrorCode.fenced_instance_id)
        self._answers.refuse_sync(self._members.take_sync(member), ErrorCode.fenced_instance_id)
        old_identity, leader = identity_of(member), self.leader
        self._members.rename(member, member_id)
        self._members.update(member, details_of(joining))
        member.knows_id = False
        self._wait_to_join(member, answer, now)
        if self.state is State.STABLE and self._votes_as_before(old_identity.details.names, member):
            self._saving.replace(member, old_identity, leader, may_skip=joining.may_skip_assignment)
        else:
            # The leader may have been given the old id already, and assign to that.
            self._prepare(
                now, f"static member {member.instance_id} is replaced{_why(joining.reason)}"
            )

    def _votes_as_before(self, names: tuple[str, ...], member: Member) -> bool:
        return names == member.details.names or self._members.vote() == self.protocol

    def _wait_to_join(self, member: Member, answer: JoinAnswer, now: float) -> None:
        old_answer = self._members.wait_to_join(member, answer)
        self._beat(member, now)
        self._answers.refuse_join(old_answer, ErrorCode.rebalance_in_progress, member.member_id)

    def _joined(self, member: Member) -> JoinOutcome:
        """Only a leader that is to assign gets the list of members."""
        is_assigning = member is self._members.leader and self.state is State.COMPLETING
        return JoinOutcome(
            code=ErrorCode.none,
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader,
            members=self._members.for_leader(self.protocol) if is_assigning else (),
        )

    # Rebalancing

    def _prepare(self, now: float, reason: str) -> None:
        if self.state is State.PREPARING:
            return
        self.reason = reason
        self._saving.void()
        if self.state is State.COMPLETING:
            self._assign(None, ErrorCode.rebalance_in_progress, now)
        self._members.none_to_sync()
        self._sync_at = None
        timeout, delay = self._members.rebalance_timeout(), self._rules.initial_delay
        self._initial = self.state is State.EMPTY
        self._newcomer = False
        self._delayed_until = now + max(timeout, delay)
        self._rebalance_at = now + (delay if self._initial else timeout)
        self.state = State.PREPARING
        if self._initial and not delay:
            self._complete(now)
        self._try_to_complete(now)

    def _try_to_complete(self, now: float) -> None:
        """Complete the rebalance if all have joined. An empty group still waits for its delay."""
        if (
            self.state is State.PREPARING
            and not self._initial
            and not self._members.pending
            and self._members.joining == len(self._members)
        ):
            self._complete(now)

    def _complete(self, now: float) -> None:
        """Begin the next generation with the members that have joined. Static members that have not
        are in it too, until their session expires, or they do not sync."""
        for member in tuple(self._members):
            if member.join_answer is None and member.instance_id is None:
                self._discard(member)
        if len(self._members) and not self._members.elect():
            self._initial = False
            self._rebalance_at = now + self._members.rebalance_timeout()
            return
        self._initial = False
        self._rebalance_at = None
        self.generation += 1
        if not len(self._members):
            self.protocol = None
            self.state = State.EMPTY
            self._saving.emptied = self._record(None)
            return
        self.protocol = self._members.vote()
        self.state = State.COMPLETING
        self._members.all_to_sync()
        self._sync_at = now + self._members.rebalance_timeout()
        for member in self._members:
            answer = self._members.take_join(member)
            if answer is not None:
                self._answers.tell(answer, self._joined(member))
                member.knows_id = True
            member.is_new = False
            self._beat(member, now)

    # Syncing

    def sync(self, syncing: Syncing, answer: SyncAnswer, now: float) -> None:
        """Gives a member its assignment; answers at once, or when the leader's assignment is
        saved."""
        member = self._of_generation(syncing.member_id, syncing.instance_id, syncing.generation)
        if not isinstance(member, Member):
            self._answers.refuse_sync(answer, member)
        elif syncing.protocol_type not in (None, self.protocol_type) or (
            syncing.protocol not in (None, self.protocol)
        ):
            self._answers.refuse_sync(answer, ErrorCode.inconsistent_group_protocol)
        elif self.state is State.PREPARING:
            self._answers.refuse_sync(answer, ErrorCode.rebalance_in_progress)
        else:
            if self._members.synced(member):
                self._sync_at = None
            if self.state is State.STABLE:
                self._beat(member, now)
                self._answers.tell(answer, self._synced(member))
            else:
                old_answer = self._members.wait_to_sync(member, answer)
                self._answers.refuse_sync(old_answer, ErrorCode.rebalance_in_progress)
                if member is self._members.leader and self._saving.assigned is None:
                    self._take_assigned(syncing, now)
        self._answers.give()

    def _take_assigned(self, syncing: Syncing, now: float) -> None:
        assignments = {
            member_id: assignment
            for member_id, assignment in syncing.assignments
            if self._members.get(member_id) is not None
        }
        if sum(map(len, assignments.values())) > self._rules.most_bytes:
            self._assign(None, ErrorCode.unknown_server_error, now)
            self._prepare(now, "the leader's assignment is too large")
        else:
            self._saving.assigned = Assigned(assignments)

    def _assign(self, assigned: Assigned | None, code: ErrorCode, now: float) -> None:
        """Answer all waiting members with their assignments; with an error, with none."""
        for member in self._members:
            member.assignment = b"" if assigned is None else assigned.to(member)
            answer = self._members.take_sync(member)
            if answer is not None:
                self._beat(member, now)
                if assigned is None:
                    self._answers.refuse_sync(answer, code)
                else:
                    self._answers.tell(answer, self._synced(member))

    def _synced(self, member: Member) -> SyncOutcome:
        return SyncOutcome(
            code=ErrorCode.none,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            assignment=member.assignment,
        )

    # Saving

    def take_save(self) -> GroupRecord | None:
        """Returns the state to save now, or None. Call `saved` or `not_saved` before the next
        call."""
        if not self._saving.wanted:
            return None
        return self._saving.take() or self._record(self._saving.assigned)

    def saved(self, now: float) -> None:
        assignment = self._saving.end_assigned()
        if assignment is not None:
            self.state = State.STABLE
            self._assign(assignment, ErrorCode.none, now)
        for member, replacement in self._saving.end_replaced().items():
            answer = self._members.take_join(member)
            self._beat(member, now)
            if answer is None:
                continue
            leads = member is self._members.leader and replacement.may_skip_assignment
            outcome = JoinOutcome(
                code=ErrorCode.none,
                member_id=member.member_id,
                generation=self.generation,
                protocol_type=self.protocol_type,
                protocol=self.protocol,
                leader=self.leader if replacement.may_skip_assignment else replacement.leader_then,
                members=self._members.for_leader(self.protocol) if leads else (),
                skip_assignment=leads,
            )
            self._answers.tell(answer, outcome)
        self._answers.give()

    def not_saved(self, code: ErrorCode, now: float) -> None:
        """Notes that the save of the taken state failed or has an unknown outcome. Waiting clients
        get `code`."""
        if self._saving.end_assigned() is not None:
            self._assign(None, code, now)
            self._prepare(now, "the leader's assignment could not be saved")
        for member, replacement in tuple(self._saving.replaced.items()):
            self._answers.refuse_join(self._members.take_join(member), code)
            self._members.rename(member, replacement.before.member_id)
            self._members.update(member, replacement.before.details)
            self._beat(member, now)
        self._saving.replaced.clear()
        self._answers.give()

    def _record(self, assigned: Assigned | None) -> GroupRecord:
        protocol = self.protocol or ""
        return GroupRecord(
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            generation=self.generation,
            leader=self.leader or None,
            members=tuple(
                member.record(
                    protocol, member.assignment if assigned is None else assigned.to(member)
                )
                for member in self._members
            ),
        )

    # Heartbeats, commits, leaving

    def heartbeat(
        self, member_id: str, instance_id: str | None, generation: int, now: float
    ) -> ErrorCode:
        """Notes that a member is alive; returns REBALANCE_IN_PROGRESS if it must rejoin."""
        member = self._of_generation(member_id, instance_id, generation)
        if not isinstance(member, Member):
            return member
        self._beat(member, now)
        is_preparing = self.state is State.PREPARING
        return ErrorCode.rebalance_in_progress if is_preparing else ErrorCode.none

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, now: float
    ) -> ErrorCode:
        """Returns NONE if offsets may be committed, which counts as a heartbeat; else the error
        code."""
        if self.state is State.EMPTY and generation < 0:
            return ErrorCode.none
        if self.state is not State.DEAD and generation < 0 and not member_id and not instance_id:
            return ErrorCode.unknown_member_id
        member = self._of_generation(member_id, instance_id, generation)
        if not isinstance(member, Member):
            return member
        if self.state is State.COMPLETING:
            return ErrorCode.rebalance_in_progress
        self._beat(member, now)
        return ErrorCode.none

    def leave(self, leaving: Iterable[Leaving], now: float) -> LeaveOutcome:
        if self.state is State.DEAD:
            return LeaveOutcome(ErrorCode.coordinator_not_available)
        codes = tuple(self._leave(member, now) for member in leaving)
        self._answers.give()
        return LeaveOutcome(ErrorCode.none, codes)

    def _leave(self, leaving: Leaving, now: float) -> ErrorCode:
        if leaving.member_id in self._members.pending:
            self._drop_pending(leaving.member_id)
            self._try_to_complete(now)
            return ErrorCode.none
        if leaving.member_id == NO_MEMBER:
            static_member = self._members.instance(leaving.instance_id)
            member = static_member or ErrorCode.unknown_member_id
        else:
            member = self._member(leaving.member_id, leaving.instance_id)
        if not isinstance(member, Member):
            return member
        self._remove(member, now, f"member {member.member_id} leaves{_why(leaving.reason)}")
        return ErrorCode.none

    def gone(self, answer: Waiting, now: float) -> None:
        """Drops the callback of a disconnected client. Its member may return within the session
        timeout, unless it does not know its id yet."""
        member = self._members.forget(answer)
        if member is None:
            return
        if member.knows_id or member.instance_id is not None:
            self._beat(member, now)
        else:
            self._remove(member, now, f"member {member.member_id} disconnected while joining")
        self._answers.give()

    # The end

    def die(self, code: ErrorCode) -> None:
        """Ends the group on this broker, as it was deleted or moved. Waiting clients get `code`,
        without ids that they did not send: these were never saved, so the next coordinator would
        fence them."""
        for member in self._members:
            known_id = member.member_id if member.knows_id else NO_MEMBER
            self._answers.refuse_join(self._members.take_join(member), code, known_id)
            self._answers.refuse_sync(self._members.take_sync(member), code)
        self.state = State.DEAD
        self._saving.void()
        self._saving.emptied = None
        self._sessions.clear()
        self._rebalance_at = self._sync_at = None
        self._answers.give()

    def describe(self) -> GroupDescription:
        """Describes the group, with metadata and assignments only while it is stable."""
        is_dead, is_stable = self.state is State.DEAD, self.state is State.STABLE
        return GroupDescription(
            state=self.state,
            protocol_type="" if is_dead else self.protocol_type or "",
            protocol=(self.protocol or "") if is_stable else "",
            members=()
            if is_dead
            else self._members.described(self.protocol if is_stable else None),
        )

    # Identity

    def _member(self, member_id: str, instance_id: str | None) -> Member | ErrorCode:
        if self.state is State.DEAD:
            return ErrorCode.coordinator_not_available
        if instance_id is not None:
            static_member = self._members.instance(instance_id)
            if static_member is None:
                return ErrorCode.unknown_member_id
            if static_member.member_id != member_id:
                return ErrorCode.fenced_instance_id
            return static_member
        return self._members.get(member_id) or ErrorCode.unknown_member_id

    def _of_generation(
        self, member_id: str, instance_id: str | None, generation: int
    ) -> Member | ErrorCode:
        member = self._member(member_id, instance_id)
        if isinstance(member, Member) and generation != self.generation:
            return ErrorCode.illegal_generation
        return member

    def _remove(self, member: Member, now: float, reason: str) -> None:
        """Remove a member; the others are to share its partitions."""
        self._discard(member)
        self._prepare(now, reason)
        self._try_to_complete(now)

    def _discard(self, member: Member) -> None:
        self._answers.refuse_join(self._members.take_join(member), ErrorCode.unknown_member_id)
        self._answers.refuse_sync(self._members.take_sync(member), ErrorCode.unknown_member_id)
        self._members.remove(member)
        self._sessions.discard(member)

    def _drop_pending(self, member_id: str) -> None:
        if member_id in self._members.pending:
            self._members.pending.discard(member_id)
            self._sessions.discard(member_id)


def _why(reason: str | None) -> str:
    return f": {reason[:_LONGEST_REASON]}" if reason else ""
