"""Groups of Penstock's own consumers, as the brokers show and change them for operators."""

import asyncio

import pytest
from msgspec.structs import replace

from broker.errors import ApiError
from broker.groups.coordinated_groups import now_ms
from broker.groups.coordinator import Coordinator
from broker.groups.membership.values import NO_GENERATION, NO_MEMBER, State
from cluster.groups import groups
from cluster.groups import members as group_members
from cluster.groups.offsets import read_offsets
from cluster.session.session import Session
from cluster.values import (
    CommittedOffset,
    GroupInfo,
    GroupKind,
    Membership,
    OwnedTopic,
    TopicPartition,
)
from harness.processes.event_loops import on_event_loop, wait_until_awaited
from harness.processes.waiting import wait_until_async
from tests.broker.groups.coordinators import (
    GROUP,
    OFFSET,
    RULES,
    a_coordinator,
    create_topic,
    delete_topic,
    joining,
    snapshot,
)
from tests.cluster.conftest import Connect
from wire.consumer_protocol import pairs, read_assignment, read_subscription
from wire.errors import ErrorCode

SHORT = replace(RULES, retention_seconds=0.3, look_seconds=0.1)


@pytest.fixture
def at_work(session: Session, connect: Connect) -> "Reader":
    """A member that owns both partitions, and has committed 7 of one."""
    if not session.exists("/brokers/topics/views"):
        create_topic(session, "views")
    return Reader(connect())


class Reader:
    def __init__(self, session: Session) -> None:
        self.session = session
        self.membership: Membership = group_members.join(session, GROUP, "worker-1", ["views"])
        self.topic = self._open()
        group_members.claim(session, self.membership, self.topic, [0, 1])
        self.commit(7)

    def _open(self) -> OwnedTopic:
        known = group_members.topic_of(self.session, "views")
        assert known is not None
        return group_members.open_topic(self.session, self.membership, "views", *known)

    def commit(self, offset: int, committed_ms: int = 0) -> None:
        value = CommittedOffset(offset=offset, committed_ms=committed_ms or now_ms())
        group_members.commit(self.session, self.membership, {"views": self.topic}, {OFFSET: value})

    def leave(self) -> None:
        owned = [TopicPartition("views", each) for each in (0, 1)]
        group_members.leave(self.session, self.membership, owned)


async def resets(coordinator: Coordinator, offset: int, partition: int = 0) -> ErrorCode:
    value = CommittedOffset(offset=offset, committed_ms=now_ms())
    wanted = {TopicPartition("views", partition): value}
    return await coordinator.commit(GROUP, NO_MEMBER, None, NO_GENERATION, wanted)


@on_event_loop
async def test_while_it_has_members_it_is_shown_and_not_changed(
    session: Session, at_work: Reader
) -> None:
    async with a_coordinator(session) as coordinator:
        assert await coordinator.listed() == [(GROUP, "consumer", State.STABLE)]
        found = await coordinator.describe(GROUP)
        kind = (found.state, found.protocol_type, found.protocol)
        assert kind == (State.STABLE, "consumer", "penstock")
        [member] = found.members
        assert member.member_id == "worker-1"
        assert read_subscription(member.metadata).topics == ("views",)
        assigned = read_assignment(member.assignment).assigned_partitions
        assert [*pairs(assigned)] == [("views", 0), ("views", 1)]
        # Nobody joins it by the other protocol.
        with pytest.raises(ApiError) as refused:
            await coordinator.join(GROUP, joining())
        assert refused.value.code is ErrorCode.inconsistent_group_protocol
        unknown = ErrorCode.unknown_member_id
        assert await coordinator.commit(GROUP, "someone", None, 3, {}) is unknown
        assert await resets(coordinator, 3) is unknown
        assert await coordinator.delete(GROUP) is ErrorCode.non_empty_group
        other = TopicPartition("clicks", 0)
        code, codes = await coordinator.delete_offsets(GROUP, [OFFSET, other])
        assert code is ErrorCode.none
        assert codes == {OFFSET: ErrorCode.group_subscribed_to_topic, other: ErrorCode.none}
        assert (await coordinator.offsets(GROUP))[OFFSET].offset == 7
        at_work.commit(8)


@on_event_loop
async def test_without_members_it_is_reset_and_members_go_on_there(
    session: Session, at_work: Reader, connect: Connect
) -> None:
    at_work.leave()

    async with a_coordinator(session) as coordinator:
        assert await coordinator.listed() == [(GROUP, "consumer", State.EMPTY)]
        assert await resets(coordinator, 3) is ErrorCode.none
        assert await resets(coordinator, 4, partition=1) is ErrorCode.none
        found = await coordinator.offsets(GROUP)
        assert [found[TopicPartition("views", each)].offset for each in (0, 1)] == [3, 4]
        again = await asyncio.to_thread(Reader, connect())
        again.leave()
        code, codes = await coordinator.delete_offsets(GROUP, [OFFSET])
        assert (code, codes[OFFSET]) == (ErrorCode.none, ErrorCode.none)
        assert list(await coordinator.offsets(GROUP)) == [TopicPartition("views", 1)]
        assert await coordinator.delete(GROUP) is ErrorCode.none
        assert await coordinator.delete(GROUP) is ErrorCode.group_id_not_found
        assert await coordinator.listed() == []


@on_event_loop
async def test_what_is_reset_is_of_the_topic_of_today(session: Session, at_work: Reader) -> None:
    at_work.leave()
    delete_topic(session, "views")
    create_topic(session, "views")

    async with a_coordinator(session) as coordinator:
        assert await resets(coordinator, 4, partition=1) is ErrorCode.none
        assert [each.partition for each in await coordinator.offsets(GROUP)] == [1]

    again = group_members.join(session, GROUP, "worker-2", ["views"])
    known = group_members.topic_of(session, "views")
    assert known is not None
    group_members.open_topic(session, again, "views", *known)
    assert [each.partition for each in read_offsets(session, GROUP)] == [1]


@on_event_loop
async def test_what_was_committed_of_a_deleted_topic_goes(
    session: Session, at_work: Reader
) -> None:
    async with a_coordinator(session) as coordinator:
        delete_topic(session, "views")
        coordinator.follow(snapshot(1, topics=()))

        async def is_gone() -> bool:
            return not await coordinator.offsets(GROUP)

        await wait_until_awaited(is_gone)


@on_event_loop
async def test_it_expires_when_nobody_has_been_in_it_for_long(
    session: Session, at_work: Reader
) -> None:
    at_work.commit(9, committed_ms=1)

    async with a_coordinator(session, rules=SHORT) as coordinator:
        await asyncio.sleep(1.0)  # ten looks
        assert (await coordinator.offsets(GROUP))[OFFSET].offset == 9
        at_work.leave()
        await wait_until_async(lambda: groups.read_group(session, GROUP) is None)


@on_event_loop
async def test_who_comes_back_takes_back_that_nobody_is_there(
    session: Session, at_work: Reader, connect: Connect
) -> None:
    at_work.commit(9, committed_ms=1)
    at_work.leave()
    rules = replace(RULES, retention_seconds=3_600.0, look_seconds=0.1)

    def empty_since() -> int | None:
        found = groups.read_group(session, GROUP)
        assert found is not None
        return found.info.empty_since_ms

    async with a_coordinator(session, rules=rules):
        await wait_until_async(lambda: empty_since() is not None)
        again = connect()
        await asyncio.to_thread(group_members.join, again, GROUP, "worker-2", ["views"])
        assert await asyncio.to_thread(empty_since) is None


@on_event_loop
async def test_of_several_brokers_one_shows_it(session: Session, connect: Connect) -> None:
    names = [f"g{number}" for number in range(20)]
    for number, name in enumerate(names):
        if number % 2:
            group_members.join(session, name, f"worker-{number}", ["views"])
        else:
            kafka = GroupInfo(name=name, kind=GroupKind.KAFKA, coordinator=1)
            groups.create_group(session, kafka)

    known = snapshot(1, 2)
    async with a_coordinator(session, 1) as one, a_coordinator(connect(), 2) as two:
        listed = []
        for coordinator in (one, two):
            coordinator.follow(known)
            listed.append([name for name, _, _ in await coordinator.listed()])
        assert sorted(listed[0] + listed[1]) == sorted(names)
        assert all(len(each) > 2 for each in listed)
        other = next(name for name in listed[1] if int(name[1:]) % 2)
        with pytest.raises(ApiError) as refused:
            await one.describe(other)
        assert refused.value.code is ErrorCode.not_coordinator
