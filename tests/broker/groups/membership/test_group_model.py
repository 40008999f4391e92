"""A group under clients that do anything, in any order, while saving fails, time passes, and
coordinators change.

Whatever they do: who waits is told once, and before its time is over; nobody is told what is not
saved; within a generation all have the same of it, and each what the leader gave it; generations
grow, and no commit of an old one passes. And when all behave for a while, the group is stable.
"""

from dataclasses import dataclass
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from broker.groups.membership.values import (
    GroupRecord,
    JoinedMember,
    JoinOutcome,
    Leaving,
    Protocol,
    State,
    SyncOutcome,
)
from tests.broker.groups.membership.scene import Asked, Scene
from wire.errors import ErrorCode

CLIENTS: Final = 6
SESSION: Final = 10.0
BEAT: Final = 3.0
REBALANCE: Final = 30.0
LONGEST: Final = 300.0 + 2 * REBALANCE + SESSION + 10

clients = st.integers(0, CLIENTS - 1)
protocol_sets = st.sampled_from(
    [
        (Protocol("range", b"a"),),
        (Protocol("range", b"b"), Protocol("sticky", b"c")),
        (Protocol("sticky", b"d"), Protocol("range", b"e")),
    ]
)


@dataclass
class Client:
    """The first half of them are static members; the versions that they speak differ."""

    number: int
    version: int
    instance_id: str | None
    protocols: tuple[Protocol, ...] = (Protocol("range", b"a"),)
    member_id: str = ""
    joined: JoinOutcome | None = None
    synced: SyncOutcome | None = None
    asked: Asked | None = None
    alive: bool = True

    def forget(self) -> None:
        self.joined = self.synced = self.asked = None

    def restart(self) -> None:
        self.forget()
        self.member_id = ""
        self.alive = True


class GroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene(look_at=self.look_at)
        self.clients = [
            Client(each, (3, 8, 9)[each % 3], f"i{each}" if each < CLIENTS // 2 else None)
            for each in range(CLIENTS)
        ]
        self.open: list[Asked] = []
        self.durable: GroupRecord | None = None
        self.taken: GroupRecord | None = None
        self.last_generation = 0
        self.assigners = 0
        self.told: dict[int, tuple[str | None, str | None]] = {}  # protocols, by generation
        self.assigned_by: dict[int, str] = {}  # whose assignments were told, by generation
        self.in_generation: dict[int, set[str]] = {}  # who was told so
        self.leaders: dict[int, str] = {}  # who was told to assign, by generation

    # What clients do

    def join(self, client: Client) -> None:
        client.joined = client.synced = None
        client.asked = self.scene.join(
            client.member_id,
            instance_id=client.instance_id,
            protocols=client.protocols,
            session=SESSION,
            rebalance=REBALANCE,
            version=client.version,
        )
        self.open.append(client.asked)

    def sync(self, client: Client, joined: JoinOutcome) -> None:
        self.assigners += 1
        given = {
            each.member_id: f"{joined.generation} {name_of(each)} {self.assigners}".encode()
            for each in joined.members
        }
        client.asked = self.scene.sync(joined, given, instance_id=client.instance_id)
        self.open.append(client.asked)

    def read(self, client: Client) -> None:
        """What it was told, if it was."""
        asked, client.asked = client.asked, None
        assert asked is not None
        for outcome in asked.joined:
            client.member_id = outcome.member_id
            if outcome.code is ErrorCode.none:
                client.joined = outcome
            else:
                self.refused(client, outcome.code)
        for synced in asked.synced:
            if synced.code is ErrorCode.none:
                client.synced = synced
                self.check_assignment(client, synced)
            else:
                self.refused(client, synced.code)

    def refused(self, client: Client, code: ErrorCode) -> None:
        client.joined = client.synced = None
        if code is ErrorCode.unknown_member_id:
            client.member_id = ""
        assert code is not ErrorCode.fenced_instance_id, "there is one of each instance"
        assert code is not ErrorCode.inconsistent_group_protocol, "all know one"
        assert code is not ErrorCode.group_max_size_reached

    def act(self, client: Client) -> None:
        """The next thing that a client does that behaves."""
        if client.asked is not None and client.asked.waits:
            return
        if client.asked is not None:
            self.read(client)
        elif client.joined is None:
            self.join(client)
        elif client.synced is None:
            self.sync(client, client.joined)
        else:
            code = self.scene.beat(client.joined, client.instance_id)
            if code is not ErrorCode.none:
                self.refused(client, code)

    @rule(number=clients)
    def behave(self, number: int) -> None:
        client = self.clients[number]
        if client.alive:
            self.act(client)

    @rule(number=clients, protocols=protocol_sets)
    def join_again(self, number: int, protocols: tuple[Protocol, ...]) -> None:
        """Whatever it did before; where it waits, nobody reads that any more."""
        client = self.clients[number]
        if client.alive:
            client.protocols = protocols
            self.join(client)

    @rule(number=clients)
    def vanish(self, number: int) -> None:
        self.clients[number].alive = False

    @rule(number=clients)
    def lose_connection(self, number: int) -> None:
        client = self.clients[number]
        asked = client.asked
        if asked is not None and asked.waits:
            self.scene.group.gone(asked.join, self.scene.now)
            self.scene.group.gone(asked.sync, self.scene.now)
            self.open.remove(asked)
            client.forget()

    @rule(number=clients)
    def restart(self, number: int) -> None:
        self.clients[number].restart()

    @rule(number=clients, by_instance=st.booleans())
    def leave(self, number: int, by_instance: bool) -> None:
        client = self.clients[number]
        by_instance = by_instance and client.instance_id is not None
        if by_instance or client.member_id:
            self.scene.left(
                Leaving(
                    member_id="" if by_instance else client.member_id,
                    instance_id=client.instance_id if by_instance else None,
                )
            )
            client.alive = False

    @rule(number=clients, behind=st.sampled_from([1, -1, 0]))
    def commit(self, number: int, behind: int) -> None:
        """By a member, of this generation or another."""
        group = self.scene.group
        for member in group.describe().members[number:]:
            code = group.check_commit(
                member.member_id, member.instance_id, group.generation - behind, self.scene.now
            )
            if behind:
                assert code is ErrorCode.illegal_generation
            else:
                completing = group.state is State.COMPLETING
                assert code is (ErrorCode.rebalance_in_progress if completing else ErrorCode.none)

    @rule()
    def commit_alone(self) -> None:
        group = self.scene.group
        code = group.check_commit("", None, -1, self.scene.now)
        assert (code is ErrorCode.none) == (group.state is State.EMPTY)

    # What befalls them

    @rule(seconds=st.sampled_from([0.5, 3.0, 6.0, SESSION, REBALANCE, 100.0]))
    def pass_time(self, seconds: float) -> None:
        self.scene.after(seconds)

    @rule(seconds=st.sampled_from([4.0, 11.0, 50.0]))
    def be_late(self, seconds: float) -> None:
        """The broker was busy, and asks its groups only now."""
        self.scene.now += seconds
        self.scene.group.advance(self.scene.now)

    @precondition(lambda self: self.taken is None)
    @rule()
    def take_save(self) -> None:
        self.taken = self.scene.group.take_save()

    @precondition(lambda self: self.taken is not None)
    @rule(fails=st.sampled_from([False, False, True]))
    def end_save(self, fails: bool) -> None:
        assert self.taken is not None
        if fails:
            self.taken = None
            self.scene.group.not_saved(ErrorCode.coordinator_not_available, self.scene.now)
        else:
            self.becomes_durable()
            self.scene.group.saved(self.scene.now)

    def becomes_durable(self) -> None:
        assert self.taken is not None
        if self.durable is not None:
            assert self.taken.generation >= self.durable.generation
        self.durable, self.taken = self.taken, None

    @rule(
        dies=st.booleans(),
        save_arrives=st.booleans(),
    )
    def change_coordinator(self, dies: bool, save_arrives: bool) -> None:
        """The one before may have said so, or not; its last save may have arrived, or not."""
        if self.taken is not None and save_arrives:
            self.becomes_durable()
        self.taken = None
        if dies:
            self.scene.group.die(ErrorCode.not_coordinator)
            assert not any(each.waits for each in self.open)
        self.open.clear()
        for client in self.clients:
            if client.asked is not None and client.asked.waits:
                client.forget()
        self.scene.taken_over(self.durable)
        self.last_generation = self.scene.group.generation
        self.in_generation.clear()
        self.leaders.clear()
        for generation in [each for each in self.told if each > self.last_generation]:
            del self.told[generation]

    @rule()
    def all_behave(self) -> None:
        """For a while: those that are there are in a stable group then, and have what they read."""
        for client in self.clients:
            if client.asked is not None and client.asked not in self.open and client.asked.waits:
                client.forget()
        for _ in range(int(LONGEST / BEAT)):
            self.scene.after(BEAT)
            for client in self.clients:
                for _ in range(4 if client.alive else 0):
                    self.act(client)
            self.save_all()
            self.check()
            if self.is_settled():
                break
        assert self.is_settled()

    def is_settled(self) -> bool:
        group = self.scene.group
        alive = [each for each in self.clients if each.alive]
        if not alive:
            return group.state is State.EMPTY
        return (
            group.state is State.STABLE
            and len(group) == len(alive)
            and all(each.synced is not None and each.joined is not None for each in alive)
            and {each.joined.generation for each in alive if each.joined} == {group.generation}
        )

    def save_all(self) -> None:
        while True:
            if self.taken is None:
                self.taken = self.scene.group.take_save()
            if self.taken is None:
                return
            self.becomes_durable()
            self.scene.group.saved(self.scene.now)

    def teardown(self) -> None:
        """Nobody waits for ever, even where nobody does anything but save."""
        for _ in range(int(LONGEST / 10)):
            self.scene.after(10.0)
            self.save_all()
        self.check()
        assert not any(each.waits for each in self.open)
        assert self.scene.group.state is State.EMPTY
        assert self.scene.group.next_time() is None

    # What holds

    def check_assignment(self, client: Client, synced: SyncOutcome) -> None:
        """It is what the leader of this generation gave it, and what is saved."""
        assert client.joined is not None
        if not synced.assignment:
            return  # its leader had not heard of it, or nothing
        generation, name, assigner = synced.assignment.decode().split()
        assert int(generation) == client.joined.generation
        assert name == (client.instance_id or client.member_id)
        assert self.assigned_by.setdefault(int(generation), assigner) == assigner
        assert self.durable is not None

    @invariant()
    def check(self) -> None:
        group, state = self.scene.group, self.scene.group.state
        members = group.describe().members
        assert group.generation >= self.last_generation
        self.last_generation = group.generation
        self.open = [each for each in self.open if each.waits]
        if state is State.COMPLETING:
            dynamic = {each.member_id for each in members if each.instance_id is None}
            assert dynamic <= self.in_generation[group.generation]
        if state in (State.EMPTY, State.COMPLETING):
            joins = [each for each in self.open if self.waits_to_join(each)]
            assert not joins
        if state is State.PREPARING or (state is State.STABLE and not self.open):
            assert group.next_time() is not None
        assert (state is State.EMPTY) <= (len(group) == 0)

    def waits_to_join(self, asked: Asked) -> bool:
        return asked.join in self.scene.group._members._waiting

    def look_at(self, outcome: JoinOutcome | SyncOutcome) -> None:
        """All are told the same of a generation, while it is; assignments are saved."""
        if outcome.code is not ErrorCode.none:
            return
        group = self.scene.group
        if isinstance(outcome, SyncOutcome):
            assert group.state is State.STABLE
            assert self.durable is not None
            assert self.durable.generation == group.generation
            assert outcome.assignment in {each.assignment for each in self.durable.members}
            return
        assert group.state in (State.COMPLETING, State.STABLE)
        assert outcome.generation == group.generation
        told = (outcome.protocol_type, outcome.protocol)
        assert self.told.setdefault(outcome.generation, told) == told
        self.in_generation.setdefault(outcome.generation, set()).add(outcome.member_id)
        if outcome.members and not outcome.skip_assignment:
            leaders = self.leaders.setdefault(outcome.generation, outcome.member_id)
            assert leaders == outcome.member_id == outcome.leader


def name_of(member: JoinedMember) -> str:
    return member.instance_id or member.member_id


GroupMachine.TestCase.settings = settings(stateful_step_count=30)
test_a_group_holds_whatever_its_clients_do = GroupMachine.TestCase
