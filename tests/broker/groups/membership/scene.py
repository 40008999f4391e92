"""A group and clients of it, as tests of groups see them: time is a number, ids are counted."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from broker.groups.membership.group import Group
from broker.groups.membership.values import (
    GroupRecord,
    GroupRules,
    Joining,
    JoinOutcome,
    LeaveOutcome,
    Leaving,
    Protocol,
    Syncing,
    SyncOutcome,
)
from wire.errors import ErrorCode

DELAY = 3.0
SESSION = 10.0
REBALANCE = 60.0
RULES = GroupRules(initial_delay=DELAY)
RANGE = (Protocol("range", b"topics"),)


@dataclass(eq=False)
class Asked:
    """What one who waits was told: nothing yet, or one outcome."""

    look_at: Callable[[JoinOutcome | SyncOutcome], None] = lambda _: None
    joined: list[JoinOutcome] = field(default_factory=list)
    synced: list[SyncOutcome] = field(default_factory=list)

    def join(self, outcome: JoinOutcome) -> None:
        assert self.waits, "called twice"
        self.joined.append(outcome)
        self.look_at(outcome)

    def sync(self, outcome: SyncOutcome) -> None:
        assert self.waits, "called twice"
        self.synced.append(outcome)
        self.look_at(outcome)

    @property
    def waits(self) -> bool:
        return not self.joined and not self.synced

    @property
    def code(self) -> ErrorCode:
        (outcome,) = [*self.joined, *self.synced]
        return outcome.code

    @property
    def outcome(self) -> JoinOutcome:
        (outcome,) = self.joined
        return outcome

    @property
    def assignment(self) -> SyncOutcome:
        (outcome,) = self.synced
        return outcome


class Scene:
    """One group at a time that a test moves on."""

    def __init__(
        self,
        rules: GroupRules = RULES,
        look_at: Callable[[JoinOutcome | SyncOutcome], None] = lambda _: None,
    ) -> None:
        """All that anybody is told is looked at, when it is told."""
        self.now = 1000.0
        self.look_at = look_at
        self.numbers: Iterator[int] = itertools.count(1)
        self.group = Group(rules, unique=self.unique)

    def unique(self) -> str:
        return str(next(self.numbers))

    def taken_over(self, record: GroupRecord | None, rules: GroupRules = RULES) -> None:
        """By another broker, from what was saved, if anything was."""
        if record is None:
            self.group = Group(rules, unique=self.unique)
        else:
            self.group = Group.from_record(record, rules, self.now, unique=self.unique)

    def after(self, seconds: float) -> None:
        """Time passes; the group is told whenever it asks for that, and not in between."""
        until = self.now + seconds
        while (at := self.group.next_time()) is not None and at <= until:
            self.now = max(self.now, at)
            self.group.advance(self.now)
        self.now = until

    # What clients ask

    def join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        client_id: str = "c",
        client_host: str = "/10.0.0.1",
        protocols: tuple[Protocol, ...] = RANGE,
        protocol_type: str = "consumer",
        session: float = SESSION,
        rebalance: float = REBALANCE,
        version: int = 9,
        reason: str | None = None,
    ) -> Asked:
        asked = Asked(self.look_at)
        joining = Joining(
            member_id=member_id,
            instance_id=instance_id,
            client_id=client_id,
            client_host=client_host,
            session_timeout=session,
            rebalance_timeout=rebalance,
            protocol_type=protocol_type,
            protocols=protocols,
            needs_member_id=version >= 4,
            may_skip_assignment=version >= 9,
            reason=reason,
        )
        self.group.join(joining, asked.join, self.now)
        return asked

    def sync(
        self,
        joined: JoinOutcome,
        assignments: dict[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> Asked:
        asked = Asked(self.look_at)
        syncing = Syncing(
            member_id=joined.member_id,
            instance_id=instance_id,
            generation=joined.generation,
            protocol_type=protocol_type,
            protocol=protocol,
            assignments=tuple((assignments or {}).items()),
        )
        self.group.sync(syncing, asked.sync, self.now)
        return asked

    def beat(self, joined: JoinOutcome, instance_id: str | None = None) -> ErrorCode:
        return self.group.heartbeat(joined.member_id, instance_id, joined.generation, self.now)

    def commit(self, joined: JoinOutcome, instance_id: str | None = None) -> ErrorCode:
        return self.group.check_commit(joined.member_id, instance_id, joined.generation, self.now)

    def leave(self, *member_ids: str) -> tuple[ErrorCode, ...]:
        left = self.left(*(Leaving(member_id=each) for each in member_ids))
        assert left.code is ErrorCode.none
        return left.codes

    def left(self, *leaving: Leaving) -> LeaveOutcome:
        return self.group.leave(leaving, self.now)

    # What brokers do

    def save(self) -> GroupRecord:
        record = self.group.take_save()
        assert record is not None
        self.group.saved(self.now)
        return record

    # Whole scenes

    def member_id(self, client_id: str = "c") -> str:
        """Of a client that has asked for one."""
        asked = self.join(client_id=client_id)
        assert asked.code is ErrorCode.member_id_required
        return asked.outcome.member_id

    def joins(self, client_id: str = "c", **how: object) -> Asked:
        """Of a new dynamic member, in both steps."""
        return self.join(self.member_id(client_id), client_id=client_id, **how)  # type: ignore[arg-type]

    def generation(self, *asked: Asked) -> tuple[JoinOutcome, ...]:
        """The one that these have joined; the first of them leads."""
        outcomes = tuple(each.outcome for each in asked)
        assert {each.code for each in outcomes} == {ErrorCode.none}
        assert {each.leader for each in outcomes} == {outcomes[0].member_id}
        return outcomes

    def stable(self, count: int = 2, **how: object) -> tuple[JoinOutcome, ...]:
        """A stable group of so many dynamic members; the first one leads."""
        asked = [self.joins(f"c{number}", **how) for number in range(count)]
        self.after(DELAY * 2)
        return self.complete(*(each.outcome for each in asked))

    def complete(self, *joined: JoinOutcome) -> tuple[JoinOutcome, ...]:
        """All sync; the leader has assigned to each its own id."""
        (leader,) = (each for each in joined if each.member_id == each.leader)
        told = {each.member_id: each.member_id.encode() for each in leader.members}
        asked = [self.sync(each, told if each is leader else None) for each in joined]
        self.save()
        assert [each.assignment.assignment for each in asked] == [
            each.member_id.encode() for each in joined
        ]
        return joined

    def static(self, *instance_ids: str, version: int = 9) -> tuple[JoinOutcome, ...]:
        """A stable group of static members."""
        asked = [self.join(instance_id=each, version=version) for each in instance_ids]
        self.after(DELAY * 2)
        return self.complete(*(each.outcome for each in asked))


def with_most(count: int) -> GroupRules:
    return replace(RULES, most_members=count)
