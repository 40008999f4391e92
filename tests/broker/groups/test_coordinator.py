"""The groups that a broker coordinates, in a real ZooKeeper: found, taken over, forgotten."""

import asyncio
from collections import Counter
from contextlib import suppress

import pytest
from msgspec.structs import replace

from broker.errors import ApiError
from broker.groups.coordinated_groups import CoordinatorRules, now_ms
from broker.groups.membership.values import NO_GENERATION, NO_MEMBER, Leaving, Protocol, State
from broker.groups.placement import first_of
from cluster.groups import groups
from cluster.groups.offsets import read_offsets
from cluster.session.session import Session
from cluster.values import CommittedOffset, GroupKind, TopicPartition
from harness.processes.event_loops import on_event_loop, wait_until_awaited
from harness.processes.waiting import wait_until_async
from tests.broker.groups.coordinators import (
    GROUP,
    OFFSET,
    RULES,
    a_coordinator,
    a_member,
    assigns_all,
    beats,
    commits,
    commits_alone,
    committed,
    create_topic,
    delete_topic,
    joining,
    snapshot,
)
from tests.cluster.conftest import Connect
from tests.cluster.proxy import Proxy
from wire.errors import ErrorCode


@on_event_loop
async def test_a_generation_and_its_offsets_outlive_their_coordinator(connect: Connect) -> None:
    async with a_coordinator(connect()) as first:
        member = await a_member(first)
        assert await commits(first, member, 7) is ErrorCode.none
    async with a_coordinator(connect(), 2) as second:
        assert await beats(second, member) is ErrorCode.none
        assert (await second.offsets(GROUP))[OFFSET].offset == 7
        described = await second.describe(GROUP)
        assert described.state is State.STABLE
        assert [each.assignment for each in described.members] == [b"all"]
        assert await second.listed() == [(GROUP, "consumer", State.STABLE)]


@on_event_loop
async def test_who_was_the_coordinator_commits_nothing_more(connect: Connect) -> None:
    """It learns of it when it writes, and then the group is not there any more."""

    async with a_coordinator(connect()) as first:
        member = await a_member(first)
        assert await commits(first, member, 7) is ErrorCode.none
        async with a_coordinator(connect(), 2) as second:
            assert await beats(second, member) is ErrorCode.none
            assert await commits(second, member, 8) is ErrorCode.none
            assert await commits(first, member, 9) is ErrorCode.not_coordinator
            assert (await second.offsets(GROUP))[OFFSET].offset == 8


@on_event_loop
async def test_a_rebalance_that_cannot_be_saved_ends_with_not_coordinator(connect: Connect) -> None:
    session = connect()
    async with a_coordinator(session) as coordinator:
        joined = await coordinator.join(GROUP, joining())
        await asyncio.to_thread(groups.take_over, session, GROUP, 2, GroupKind.KAFKA)
        synced = await assigns_all(coordinator, joined)
        assert (synced.code, synced.assignment) == (ErrorCode.not_coordinator, b"")
        stored = await asyncio.to_thread(groups.read_group, session, GROUP)
        assert stored is not None
        assert stored.members == ()


@on_event_loop
async def test_groups_of_other_brokers_are_refused_and_die_when_the_map_says_so(
    session: Session,
) -> None:
    theirs = next(f"g{n}" for n in range(100) if first_of(f"g{n}", [1, 2]) == 2)

    async with a_coordinator(session) as coordinator:
        waiting = asyncio.ensure_future(coordinator.join(theirs, joining()))
        first = await waiting
        # It waits until the first one has joined again.
        waiting = asyncio.ensure_future(coordinator.join(theirs, joining()))

        async def is_rebalancing() -> bool:
            code = await coordinator.heartbeat(theirs, first.member_id, None, first.generation)
            return code is ErrorCode.rebalance_in_progress

        await wait_until_awaited(is_rebalancing)
        coordinator.follow(snapshot(1, 2))
        assert (await waiting).code is ErrorCode.not_coordinator
        with pytest.raises(ApiError) as refused:
            await coordinator.join(theirs, joining())
        assert refused.value.code is ErrorCode.not_coordinator
        assert coordinator.coordinator_of(theirs) == 2


@on_event_loop
async def test_all_who_ask_while_a_group_is_loaded_get_the_same(session: Session) -> None:
    async with a_coordinator(session) as coordinator:
        asked = [
            asyncio.ensure_future(coordinator.join(GROUP, joining(needs_member_id=True)))
            for _ in range(20)
        ]
        codes = {(await each).code for each in asked}
        assert codes == {ErrorCode.member_id_required}


@on_event_loop
async def test_a_group_that_moves_while_it_is_loaded_is_not_served(session: Session) -> None:
    async with a_coordinator(session) as coordinator:
        asked = asyncio.create_task(coordinator.join(GROUP, joining()))
        await asyncio.sleep(0)
        coordinator.follow(snapshot(2))
        with pytest.raises(ApiError, match="another broker coordinates group"):
            await asked


@on_event_loop
async def test_who_is_not_heard_of_is_missed_in_time(session: Session) -> None:
    rules = replace(RULES, group=replace(RULES.group, least_session=0.01))

    async with a_coordinator(session, rules=rules) as coordinator:
        await a_member(coordinator, session_timeout=0.2, rebalance_timeout=0.2)
        assert await commits_alone(coordinator, 1) is ErrorCode.unknown_member_id

        async def is_empty() -> bool:
            return (await coordinator.describe(GROUP)).state in {State.EMPTY, State.DEAD}

        await wait_until_awaited(is_empty)


@on_event_loop
async def test_a_group_without_members_and_offsets_is_kept_for_a_while(session: Session) -> None:
    rules = replace(RULES, look_seconds=0.1)
    soon = replace(rules, retention_seconds=0.3)
    async with a_coordinator(session, rules=rules) as coordinator:
        member = await a_member(coordinator)
        left = await coordinator.leave(GROUP, [Leaving(member_id=member.member_id)])
        assert left.codes == (ErrorCode.none,)
        await asyncio.sleep(0.5)  # five looks
        assert (await coordinator.describe(GROUP)).state is State.EMPTY
        assert [name for name, _, _ in await coordinator.listed()] == [GROUP]
    async with a_coordinator(session, rules=soon) as coordinator:
        await wait_until_async(lambda: groups.read_group(session, GROUP) is None)
        assert (await coordinator.describe(GROUP)).state is State.DEAD
        assert await coordinator.listed() == []


@on_event_loop
async def test_a_group_that_never_had_a_member_is_forgotten(session: Session) -> None:
    async with a_coordinator(session) as coordinator:
        asked = await coordinator.join(GROUP, joining(needs_member_id=True))
        assert asked.code is ErrorCode.member_id_required
        left = await coordinator.leave(GROUP, [Leaving(member_id=asked.member_id)])
        assert left.codes == (ErrorCode.none,)
        await wait_until_async(lambda: groups.read_group(session, GROUP) is None)


@on_event_loop
async def test_what_was_committed_stays_when_the_last_member_leaves(session: Session) -> None:
    async with a_coordinator(session) as coordinator:
        member = await a_member(coordinator)
        assert await commits(coordinator, member, 3) is ErrorCode.none
        assert await coordinator.delete(GROUP) is ErrorCode.non_empty_group
        await coordinator.leave(GROUP, [Leaving(member_id=member.member_id)])
        assert await commits_alone(coordinator, 4) is ErrorCode.none
        assert (await coordinator.offsets(GROUP))[OFFSET].offset == 4
        assert await coordinator.delete(GROUP) is ErrorCode.none
        assert await coordinator.delete(GROUP) is ErrorCode.group_id_not_found
        assert await coordinator.offsets(GROUP) == {}


@on_event_loop
async def test_offsets_of_a_group_without_members_expire(session: Session) -> None:
    rules = replace(RULES, retention_seconds=0.3, look_seconds=0.1)

    async with a_coordinator(session, rules=rules) as coordinator:
        assert await commits_alone(coordinator, 1) is ErrorCode.none
        await wait_until_async(lambda: groups.read_group(session, GROUP) is None)
        member = await a_member(coordinator)  # while a member lives, they do not
        assert await commits(coordinator, member, 2) is ErrorCode.none
        old = {OFFSET: CommittedOffset(offset=9, committed_ms=1)}
        live = (member.member_id, None, member.generation)
        assert await coordinator.commit(GROUP, *live, old) is ErrorCode.none
        await asyncio.sleep(1.0)  # ten looks
        assert (await coordinator.offsets(GROUP))[OFFSET].offset == 9


@on_event_loop
async def test_offsets_of_a_topic_that_is_deleted_go_with_it(session: Session) -> None:
    async with a_coordinator(session) as coordinator:
        coordinator.follow(snapshot(1, topics=("views", "clicks")))
        assert await commits_alone(coordinator, 1) is ErrorCode.none
        delete_topic(session, "views")
        coordinator.follow(snapshot(1, topics=("clicks",)))
        await wait_until_async(lambda: read_offsets(session, GROUP) == {})


@on_event_loop
async def test_offsets_of_a_topic_that_nobody_saw_being_deleted_go_at_the_next_look(
    session: Session,
) -> None:
    rules = replace(RULES, look_seconds=0.1)
    clicks = TopicPartition("clicks", 0)

    async with a_coordinator(session) as coordinator:
        create_topic(session, "clicks")
        both = committed(1) | {clicks: CommittedOffset(offset=5, committed_ms=now_ms())}
        code = await coordinator.commit(GROUP, NO_MEMBER, None, NO_GENERATION, both)
        assert code is ErrorCode.none
    delete_topic(session, "views")
    create_topic(session, "views")  # another one
    async with a_coordinator(session, rules=rules) as coordinator:
        await wait_until_async(lambda: read_offsets(session, GROUP) == {clicks: both[clicks]})
        assert await commits_alone(coordinator, 3) is ErrorCode.none
        await asyncio.sleep(0.5)  # five looks
        assert (await coordinator.offsets(GROUP))[OFFSET].offset == 3


@on_event_loop
async def test_groups_are_bounded_in_number_and_bytes(session: Session) -> None:
    rules = replace(RULES, most_groups=2, most_bytes=3_000)
    async with a_coordinator(session, rules=rules) as coordinator:
        large = (Protocol("range", bytes(1_000)),)
        for name in ("one", "two"):
            joined = await coordinator.join(name, joining(protocols=large))
            assert joined.code is ErrorCode.none
        full = await coordinator.join("one", joining(protocols=large))
        assert full.code is ErrorCode.group_max_size_reached
        with pytest.raises(ApiError) as refused:
            await coordinator.join("three", joining())
        assert refused.value.code is ErrorCode.policy_violation


@pytest.mark.parametrize("rules", [replace(RULES, most_groups=8), replace(RULES, most_bytes=8_000)])
@on_event_loop
async def test_who_takes_all_that_there_is_leaves_room_for_others(
    session: Session, rules: CoordinatorRules
) -> None:
    large = (Protocol("range", bytes(1_000)),)
    joined: Counter[str] = Counter()
    async with a_coordinator(session, rules=rules) as coordinator:
        for number in range(10):
            for client in ("greedy",) if number < 6 else ("greedy", "other"):
                with suppress(ApiError):
                    name = f"{client}-{number}"
                    outcome = await coordinator.join(name, joining(protocols=large), client)
                    joined[client] += outcome.code is ErrorCode.none
    assert joined == {"greedy": 4, "other": 2}


@on_event_loop
async def test_a_coordinator_without_zookeeper_gives_up_its_groups(
    proxied: Session, proxy: Proxy, connect: Connect
) -> None:
    async with a_coordinator(proxied) as cut_off:
        member = await a_member(cut_off)
        proxy.refuse()
        proxy.cut()

        async def has_given_up() -> bool:
            try:
                await beats(cut_off, member)
            except ApiError as error:
                return error.code is ErrorCode.coordinator_not_available
            return False

        await wait_until_awaited(has_given_up)
        async with a_coordinator(connect(), 2) as other:
            assert await beats(other, member) is ErrorCode.none
        proxy.allow()

        async def serves() -> bool:
            return not await has_given_up()

        await wait_until_awaited(serves)


@on_event_loop
async def test_who_waits_is_told_when_the_broker_stops(session: Session) -> None:
    async with a_coordinator(session) as coordinator:
        await a_member(coordinator)
        waiting = asyncio.ensure_future(coordinator.join(GROUP, joining()))

        async def are_two() -> bool:
            return len((await coordinator.describe(GROUP)).members) == 2

        await wait_until_awaited(are_two)
        coordinator.give_up()
        assert (await waiting).code is ErrorCode.not_coordinator
        with pytest.raises(ApiError):
            await coordinator.join(GROUP, joining())
