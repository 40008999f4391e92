"""Commits on their way into a real ZooKeeper: gathered, in turns, bounded, refused by group."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager

from broker.groups.metrics import GroupCounts
from broker.groups.offset_commits import Commits
from cluster.groups import groups
from cluster.groups.offsets import GroupCommit, OffsetWriter, read_offsets
from cluster.session.session import Session
from cluster.values import CommittedOffset, GroupFence, GroupInfo, GroupKind, TopicPartition
from harness.processes.event_loops import on_event_loop
from wire.errors import ErrorCode

Offsets = dict[TopicPartition, CommittedOffset]
PLENTY = 8 << 20


class SlowWriter(OffsetWriter):
    """The real one, which writes when it is let, and tells what it was given."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.rounds: list[list[GroupCommit]] = []
        self.writes = threading.Semaphore(0)
        self.let = threading.Semaphore(0)

    def commit(self, commits: Iterable[GroupCommit]) -> set[GroupFence]:
        commits = list(commits)
        self.rounds.append(commits)
        self.writes.release()
        self.let.acquire()
        return super().commit(commits)


def a_group(session: Session, name: str) -> GroupFence:
    return groups.create_group(session, GroupInfo(name=name, kind=GroupKind.KAFKA, coordinator=1))


def at(offset: int, *partitions: int, metadata: str = "") -> Offsets:
    return {
        TopicPartition("views", each): CommittedOffset(
            offset=offset, metadata=metadata, committed_ms=1
        )
        for each in partitions
    }


@asynccontextmanager
async def committing(
    session: Session, most_bytes: int = PLENTY
) -> AsyncIterator[tuple[Commits, SlowWriter]]:
    writer = SlowWriter(session)
    commits = Commits(writer, GroupCounts(), most_bytes=most_bytes)
    try:
        yield commits, writer
    finally:
        writer.let.release(1_000)
        await commits.stop()


async def is_writing(writer: SlowWriter) -> None:
    assert await asyncio.to_thread(writer.writes.acquire, timeout=60)


def begun(*work: Awaitable[ErrorCode]) -> "list[asyncio.Future[ErrorCode]]":
    return [asyncio.ensure_future(each) for each in work]


@on_event_loop
async def test_what_comes_while_others_are_written_shares_a_transaction(session: Session) -> None:
    one, other = a_group(session, "one"), a_group(session, "other")

    async with committing(session) as (commits, writer):
        first = begun(commits.commit(one, at(1, 0)))
        await is_writing(writer)
        rest = begun(
            commits.commit(one, at(2, 0, 1)),
            commits.commit(other, at(3, 0)),
            commits.commit(one, at(4, 1, 2)),
        )
        await asyncio.sleep(0)
        writer.let.release(2)
        codes = [await each for each in first + rest]
        assert codes == [ErrorCode.none] * 4
        assert writer.rounds == [
            [GroupCommit(one, at(1, 0))],
            [GroupCommit(one, at(2, 0) | at(4, 1, 2)), GroupCommit(other, at(3, 0))],
        ]
    assert read_offsets(session, "one") == at(2, 0) | at(4, 1, 2)
    assert read_offsets(session, "other") == at(3, 0)


@on_event_loop
async def test_nobody_waits_behind_a_group_that_commits_a_lot(session: Session) -> None:
    busy, quiet = a_group(session, "busy"), a_group(session, "quiet")

    async with committing(session) as (commits, writer):
        waiting = begun(commits.commit(busy, at(0, 0)))
        await is_writing(writer)
        waiting += begun(*(commits.commit(busy, at(each, *range(400))) for each in range(1, 8)))
        await asyncio.sleep(0)
        waiting += begun(commits.commit(quiet, at(1, 0)))
        await asyncio.sleep(0)
        writer.let.release(100)
        assert {await each for each in waiting} == {ErrorCode.none}
        assert quiet in {each.fence for each in writer.rounds[1]}
        assert len(writer.rounds) > 3
        assert all(sum(len(each.offsets) for each in one) <= 1_000 for one in writer.rounds)
    assert read_offsets(session, "busy") == at(7, *range(400))


@on_event_loop
async def test_nobody_waits_behind_a_client_that_commits_for_many_groups(session: Session) -> None:
    fences = [a_group(session, f"g{number}") for number in range(6)]
    *many, one = fences

    async with committing(session) as (commits, writer):
        large = at(1, *range(400))
        work = begun(commits.commit(many[0], at(1, 0), "greedy"))
        await is_writing(writer)
        work += begun(
            *(commits.commit(fence, large, "greedy") for fence in many),
            commits.commit(one, at(2, 7), "modest"),
        )
        await asyncio.sleep(0)
        writer.let.release(10)
        assert [await each for each in work] == [ErrorCode.none] * 7
        assert one in [each.fence for each in writer.rounds[1]]
        assert {fence for each in writer.rounds for fence in [e.fence for e in each]} == {*fences}


@on_event_loop
async def test_what_waits_of_one_client_is_bounded(session: Session) -> None:
    fences = [a_group(session, f"g{number}") for number in range(4)]
    large = at(1, 0, metadata="x" * 1_000)

    async with committing(session, most_bytes=10_000) as (commits, writer):
        work = begun(commits.commit(fences[0], at(1, 9)))
        await is_writing(writer)
        work += begun(*(commits.commit(fence, large, "greedy") for fence in fences[:3]))
        work += begun(commits.commit(fences[3], large, "modest"))
        await asyncio.sleep(0)
        writer.let.release(10)
        later = ErrorCode.coordinator_load_in_progress
        codes = [await each for each in work]
        assert codes == [*[ErrorCode.none] * 3, later, ErrorCode.none]
        assert await commits.commit(fences[2], large, "greedy") is ErrorCode.none


@on_event_loop
async def test_only_the_group_that_was_taken_over_is_refused(session: Session) -> None:
    stays, moves = a_group(session, "stays"), a_group(session, "moves")

    async with committing(session) as (commits, writer):
        writer.let.release(10)
        assert await commits.commit(moves, at(1, 0)) is ErrorCode.none
        await asyncio.to_thread(groups.take_over, session, "moves", 2, GroupKind.KAFKA)
        waiting = begun(commits.commit(stays, at(5, 0)), commits.commit(moves, at(5, 0)))
        codes = [await each for each in waiting]
        assert codes == [ErrorCode.none, ErrorCode.not_coordinator]
    assert read_offsets(session, "stays") == at(5, 0)
    assert read_offsets(session, "moves") == at(1, 0)


@on_event_loop
async def test_deletions_are_done_in_the_row_of_their_group(session: Session) -> None:
    fence = a_group(session, "one")

    async with committing(session) as (commits, writer):
        waiting = begun(commits.commit(fence, at(1, 0, 1, 2)))
        await is_writing(writer)
        waiting += begun(
            commits.commit(fence, at(2, 1)),
            commits.delete(fence, [TopicPartition("views", 1), TopicPartition("views", 2)]),
            commits.commit(fence, at(3, 2)),
        )
        await asyncio.sleep(0)
        writer.let.release(10)
        assert {await each for each in waiting} == {ErrorCode.none}
    assert read_offsets(session, "one") == at(1, 0) | at(3, 2)


@on_event_loop
async def test_what_waits_is_bounded_for_a_group_and_for_all(session: Session) -> None:
    fences = [a_group(session, f"g{number}") for number in range(8)]
    large = at(1, 0, metadata="x" * 2_000)

    async with committing(session, most_bytes=10_000) as (commits, writer):
        first = begun(commits.commit(fences[0], at(1, 9)))
        await is_writing(writer)
        waiting = begun(commits.commit(fences[0], large), commits.commit(fences[0], large))
        await asyncio.sleep(0)
        later = ErrorCode.coordinator_load_in_progress
        assert await waiting.pop() is later  # a quarter for one group
        waiting += begun(*(commits.commit(fence, large) for fence in fences[1:]))
        await asyncio.sleep(0)
        writer.let.release(10)
        codes = [await each for each in first + waiting]
        assert codes == [ErrorCode.none] * 5 + [later] * 4
        assert await commits.commit(fences[7], large) is ErrorCode.none


@on_event_loop
async def test_who_has_gone_has_committed_all_the_same(session: Session) -> None:
    fence = a_group(session, "one")

    async with committing(session) as (commits, writer):
        (waiting,) = begun(commits.commit(fence, at(1, 0)))
        await is_writing(writer)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        writer.let.release(10)
        assert await commits.commit(fence, at(2, 1)) is ErrorCode.none
    assert read_offsets(session, "one") == at(1, 0) | at(2, 1)
