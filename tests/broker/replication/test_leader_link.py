"""Copying from a leader that does everything that may happen, at once and in any order."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop
from msgspec.structs import replace

from broker.replication.copied_partition import CopiedPartition, NotCopied
from broker.replication.leader_link import Fetching, LeaderLink
from broker.replication.throttle import Throttle
from client.connection.addresses import Address
from harness.processes.event_loops import on_uvloop
from harness.processes.waiting import wait_until_async
from tests.broker.replication.followed_log import FollowedLog, contents, has
from tests.broker.replication.scripted_leader import (
    KEY,
    LedPartition,
    ScriptedLeader,
    batches,
    scripted_leader,
)
from tests.client.scripted_broker import ScriptedBroker
from wire.errors import ErrorCode
from wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse

Leader = tuple[ScriptedLeader, ScriptedBroker]
FETCHING = Fetching(broker_id=2, wait_seconds=0.05, bytes=64 * 1024)


@pytest.fixture
def led() -> Iterator[Leader]:
    with scripted_leader() as leader:
        yield leader


@asynccontextmanager
async def linked(
    address: Address,
    *followed: FollowedLog,
    fetching: Fetching = FETCHING,
    epoch: int = 0,
    catches_up: bool = False,
) -> AsyncIterator[tuple[LeaderLink, list[CopiedPartition]]]:
    link = LeaderLink(1, address, fetching, catches_up=catches_up)
    copied = [CopiedPartition(each) for each in followed]
    try:
        for each in copied:
            link.follow(each, epoch)
        yield link, copied
    finally:
        await link.close()
        for each in copied:
            each.leave()
            await each.idle()


@on_uvloop
async def test_a_log_is_copied_as_it_is(led: Leader, tmp_path: Path) -> None:
    leader, broker = led
    leader.lead(batches(3, 1, 5))

    followed = FollowedLog(tmp_path)
    async with linked(broker.address, followed) as (link, (copied,)):
        await wait_until_async(has(followed, 9))
        leader.lead(batches(2, first=9))
        leader.lead(batches(4, first=11))
        await wait_until_async(has(followed, 15))
        leader.led.committed = 15
        await wait_until_async(lambda: followed.log.exposed_offset == 15 and _told(leader, 15))
        assert (link.trouble, link.connections, copied.trouble, copied.lag) == ("", 1, "", 0)
        assert copied.bytes_copied == sum(map(len, leader.led.batches))
    assert contents(followed) == leader.led.batches
    assert followed.said[-1] == (15, 0)

    first, *others = leader.requests
    assert (first.replica_id, first.session_id, first.session_epoch) == (2, 0, 0)
    assert [each.session_epoch for each in others] == [*range(1, len(others) + 1)]
    named = [topic.partitions for each in others for topic in each.topics]
    assert [each.fetch_offset for (each,) in named][-1] == 15
    assert len(named) <= 4  # the others say nothing: they are as before


@on_uvloop
async def test_what_is_flushed_is_what_is_told(led: Leader, tmp_path: Path) -> None:
    """And nobody waits for the disk of another."""
    leader, broker = led
    leader.partitions["u", 1] = LedPartition()
    leader.lead(batches(3))

    slow, quick = FollowedLog(tmp_path), FollowedLog(tmp_path, "u", 1)
    async with linked(broker.address, slow, quick) as (_, (copied, _other)):
        await wait_until_async(has(slow, 3))
        slow.disk.clear()
        leader.lead(batches(2, first=3))
        await wait_until_async(lambda: slow.log.end_offset == 5)
        before = len(leader.requests)
        leader.partitions["u", 1].batches += batches(4)
        await wait_until_async(has(quick, 4))
        assert slow.log.flushed_offset == 3
        assert copied.is_at_work
        told = leader.requests[before - 1 :]
        slow.disk.set()
        await wait_until_async(has(slow, 5))
        await wait_until_async(lambda: KEY in _named(leader.requests[-1]) or _told(leader, 5))
    assert any(each.forgotten_topics_data for each in told)
    assert all(_named(each).get(KEY, 3) == 3 for each in told)
    assert contents(slow) == leader.led.batches


def _named(request: FetchRequest) -> dict[tuple[str, int], int]:
    """The offsets in it."""
    return {
        (topic.topic, each.partition): each.fetch_offset
        for topic in request.topics
        for each in topic.partitions
    }


def _told(leader: ScriptedLeader, offset: int) -> bool:
    return any(_named(each).get(KEY) == offset for each in leader.requests)


def _begun(leader: ScriptedLeader) -> int:
    """How many sessions."""
    return sum(not each.session_epoch for each in leader.requests)


def _wrong_epoch(_: FetchRequest) -> FetchResponse:
    return FetchResponse(error_code=ErrorCode.invalid_fetch_session_epoch, responses=())


@pytest.mark.parametrize("gives_sessions", [True, False])
@on_uvloop
async def test_a_session_that_is_lost_begins_anew(
    led: Leader, tmp_path: Path, gives_sessions: bool
) -> None:
    leader, broker = led
    leader.gives_sessions = gives_sessions
    leader.lead(batches(3))

    followed = FollowedLog(tmp_path)
    async with linked(broker.address, followed) as (link, (copied,)):
        await wait_until_async(has(followed, 3))
        leader.forget_sessions()
        leader.lead(batches(2, first=3))
        await wait_until_async(has(followed, 5))
        if gives_sessions:
            await wait_until_async(
                lambda: _begun(leader) == 2 and leader.requests[-1].session_epoch > 0
            )
            leader.instead.append(_wrong_epoch)
            await wait_until_async(lambda: not leader.instead)
        leader.lead(batches(2, first=5))
        await wait_until_async(has(followed, 7))
        assert (link.connections, link.trouble, copied.trouble) == (1, "", "")
    assert contents(followed) == leader.led.batches

    if gives_sessions:
        begun = [each.session_id for each in leader.requests if not each.session_epoch]
        assert begun[:2] == [0, 0]
        assert begun[2] > 0  # that one is known to both, and ends with the request
    else:
        assert {each.session_epoch for each in leader.requests} == {0}


@on_uvloop
async def test_a_leader_that_breaks_off_is_asked_again(led: Leader, tmp_path: Path) -> None:
    """In the middle of an answer, again and again, and while it is waited for."""
    leader, broker = led
    leader.lead(batches(*[10] * 50, size=1000))
    whole = leader.usual

    def broken(asked: FetchRequest) -> bytes:
        said = bytes(5000)
        whole(asked)
        return (40_000).to_bytes(4, "big") + said

    def hang_up(_: FetchRequest) -> None:
        return None

    followed = FollowedLog(tmp_path)
    leader.instead.append(hang_up)
    async with linked(broker.address, followed) as (link, (copied,)):
        await wait_until_async(lambda: followed.log.end_offset > 0)
        for _ in range(3):
            leader.instead.append(broken)
            await wait_until_async(lambda: not leader.instead)
            broker.hang_up()
        await wait_until_async(has(followed, 500))
        await wait_until_async(lambda: not link.trouble)
        assert link.connections >= 4
        assert copied.trouble == ""
    assert contents(followed) == leader.led.batches


def test_a_leader_that_never_answers_is_left(
    led: Leader, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    leader, broker = led
    leader.lead(batches(3))
    silent = (2**20).to_bytes(4, "big")

    async def copy() -> None:
        followed = FollowedLog(tmp_path)
        leader.instead.append(lambda _: silent)
        fetching = replace(FETCHING, answer_seconds=0.3)
        async with linked(broker.address, followed, fetching=fetching) as (link, _):
            await wait_until_async(lambda: "no answer in time" in link.trouble)
            await wait_until_async(has(followed, 3))
            await wait_until_async(lambda: not link.trouble)

    with caplog.at_level(logging.INFO):
        uvloop.run(copy())
    assert "copying resumed leader" in caplog.text


@on_uvloop
async def test_nobody_is_there(led: Leader, tmp_path: Path) -> None:
    _, broker = led
    broker.close()
    async with linked(broker.address, FollowedLog(tmp_path)) as (link, _):
        await wait_until_async(lambda: "no broker at" in link.trouble)


@on_uvloop
async def test_histories_that_part(led: Leader, tmp_path: Path) -> None:
    """It goes back to where both had the same, however many leaders were in between."""
    leader, broker = led
    shared = batches(3, 3)
    ours = [*shared, *batches(5, first=6, epoch=1), *batches(7, first=11, epoch=3)]
    leader.lead([*shared, *batches(2, first=6, epoch=2), *batches(4, first=8, epoch=4)], epoch=4)

    followed = FollowedLog(tmp_path)
    async with linked(broker.address, epoch=4) as (link, _):
        theirs, leader.led.batches = leader.led.batches, ours
        copied = CopiedPartition(followed)
        link.follow(copied, 4)
        await wait_until_async(has(followed, 18))
        assert followed.log.epochs.entries == [(0, 0), (1, 6), (3, 11)]
        leader.led.batches = theirs
        leader.forget_sessions()
        await wait_until_async(has(followed, 12))
        await wait_until_async(lambda: contents(followed) == theirs)
        assert followed.log.epochs.entries == [(0, 0), (2, 6), (4, 8)]
        assert copied.trouble == ""
        link.leave(copied)
        await copied.idle()


@on_uvloop
async def test_a_leader_that_starts_later_or_ends_earlier(led: Leader, tmp_path: Path) -> None:
    leader, broker = led
    leader.lead(batches(3))

    followed = FollowedLog(tmp_path)
    async with linked(broker.address, followed) as (_, (copied,)):
        await wait_until_async(has(followed, 3))
        # Records are deleted up to the middle of a batch.
        leader.led.start = 103
        leader.led.batches = batches(5, 5, first=100)
        leader.forget_sessions()
        await wait_until_async(has(followed, 110))
        assert contents(followed) == leader.led.batches
        assert followed.said[-1] == (110, 103)
        # A leader that knows of no epochs ends before: back to what is committed.
        leader.led.knows_epochs = False
        leader.led.batches = leader.led.batches[:1]
        leader.forget_sessions()
        await wait_until_async(has(followed, 105))
        assert contents(followed) == leader.led.batches
        await wait_until_async(lambda: copied.trouble == "")


def test_a_batch_that_is_damaged_stops_its_partition_alone(
    led: Leader, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    leader, broker = led
    good = batches(2, 2, 2)
    damaged = [*good[:2], good[2][:-1] + bytes([good[2][-1] ^ 1])]
    leader.partitions["u", 1] = LedPartition()
    leader.lead(damaged)

    async def copy() -> None:
        followed, other = FollowedLog(tmp_path), FollowedLog(tmp_path, "u", 1)
        async with linked(broker.address, followed, other) as (link, (copied, _)):
            await wait_until_async(lambda: "at offset 4: the CRC of the batch" in copied.trouble)
            assert has(followed, 4)()
            before = len(leader.requests)
            leader.partitions["u", 1].batches += batches(3)
            await wait_until_async(has(other, 3))
            await wait_until_async(lambda: _told_often(leader, before))
            leader.led.batches = good
            await wait_until_async(has(followed, 6))
            await wait_until_async(lambda: copied.trouble == "")
            assert link.trouble == ""
        assert contents(followed) == good

    with caplog.at_level(logging.INFO):
        uvloop.run(copy())
    said = [each.getMessage() for each in caplog.records if "CRC" in each.getMessage()]
    assert len(said) == 1  # and is not said again each time
    assert "copying resumed topic=t partition=0" in caplog.text


def _told_often(leader: ScriptedLeader, before: int) -> bool:
    return sum(KEY in _named(each) for each in leader.requests[before:]) >= 3


@pytest.mark.parametrize(
    ("ours", "theirs", "code"), [(3, 4, "fenced leader epoch"), (4, 3, "unknown leader epoch")]
)
@on_uvloop
async def test_another_epoch_is_waited_for(
    led: Leader, tmp_path: Path, ours: int, theirs: int, code: str
) -> None:
    leader, broker = led
    leader.lead(batches(3, epoch=3), epoch=theirs)

    followed = FollowedLog(tmp_path)
    async with linked(broker.address, followed, epoch=ours) as (link, (copied,)):
        await wait_until_async(lambda: code in copied.trouble)
        asked = len(leader.requests)
        await asyncio.sleep(0.3)
        assert len(leader.requests) - asked < 20  # and not as fast as it can
        leader.led.epoch = max(ours, theirs)
        link.follow(copied, max(ours, theirs))
        await wait_until_async(has(followed, 3))
        await wait_until_async(lambda: copied.trouble == "")


@on_uvloop
async def test_a_partition_that_is_left_or_has_a_bug_disturbs_no_others(
    led: Leader, tmp_path: Path
) -> None:
    leader, broker = led
    leader.partitions["u", 1] = LedPartition(batches=batches(2))
    leader.lead(batches(3))
    followed, other = FollowedLog(tmp_path), FollowedLog(tmp_path, "u", 1)
    followed.bug = RuntimeError("a bug")
    async with linked(broker.address, followed, other) as (link, (copied, _)):
        await wait_until_async(has(other, 2))
        await wait_until_async(lambda: "a bug" in copied.trouble)
        assert link.trouble == ""
        followed.bug = None
        await wait_until_async(has(followed, 3))
        # It is left while it is answered.
        link.leave(copied)
        leader.lead(batches(2, first=3))
        leader.partitions["u", 1].batches += batches(2, first=2)
        await wait_until_async(has(other, 4))
        assert has(followed, 3)()
        link.follow(copied, 0)
        await wait_until_async(has(followed, 5))
        assert contents(followed) == leader.led.batches


@on_uvloop
async def test_what_is_throttled_takes_its_time_and_holds_up_nobody(
    led: Leader, tmp_path: Path
) -> None:
    """About 96 KiB at 32 KiB a second, of which the first second's worth comes at once."""
    leader, broker = led
    leader.partitions["u", 1] = LedPartition()
    leader.lead(batches(*[1] * 96, size=1000))
    rate, size = 32 * 1024, sum(map(len, leader.led.batches))
    throttle = Throttle()

    slow, quick = FollowedLog(tmp_path), FollowedLog(tmp_path, "u", 1)
    slow.copies_throttled = True
    loop = asyncio.get_running_loop()
    throttle.follow(rate, loop.time())
    began = loop.time()
    fetching = replace(FETCHING, throttle=throttle)
    async with linked(broker.address, slow, quick, fetching=fetching):
        await wait_until_async(lambda: throttle.wait_s(loop.time()) > 0)
        leader.partitions["u", 1].batches += batches(4)
        await wait_until_async(has(quick, 4))
        assert slow.log.end_offset < 96
        await wait_until_async(has(slow, 96))
        took = loop.time() - began
        assert took >= (size - throttle.portion(2**30)) / rate - 1

        leader.lead(batches(*[1] * 96, size=1000, first=96))
        await wait_until_async(lambda: slow.log.end_offset > 96)
        slow.copies_throttled = False  # it is in sync now, say
        await wait_until_async(has(slow, 192))
        assert loop.time() - began - took < (size / rate)
    assert contents(slow) == leader.led.batches


@pytest.mark.parametrize("catches_up", [True, False])
@on_uvloop
async def test_what_catches_up_is_asked_for_in_portions_and_no_more_than_two_at_a_time(
    led: Leader, tmp_path: Path, *, catches_up: bool
) -> None:
    """What is in sync goes on beside: that is the case to compare with."""
    leader, broker = led
    others = [("u", 1), ("v", 2)]
    for key in others:
        leader.partitions[key] = LedPartition()
    leader.led.batches = batches(*[1] * 400, size=1000)
    leader.partitions["u", 1].batches = batches(*[1] * 400, size=1000)

    large = [FollowedLog(tmp_path), FollowedLog(tmp_path, "u", 1)]
    small = FollowedLog(tmp_path, "v", 2)
    for each in large:
        each.disk.clear()
    async with linked(broker.address, *large, small, catches_up=catches_up) as (_, copied):
        await wait_until_async(lambda: all(each.log.end_offset for each in large))
        before = len(leader.requests)
        if catches_up:
            await asyncio.sleep(0.2)
            assert len(leader.requests) == before
            asked = {each.partition_max_bytes for each in _all_of(leader.requests)}
            assert asked == {FETCHING.bytes}
        else:
            await wait_until_async(lambda: len(leader.requests) > before + 3)
        assert [each.bytes_at_work for each in copied[:2]] == [each.log.size for each in large]
        assert all(each.log.size <= FETCHING.bytes for each in large)
        large[0].disk.set()
        await wait_until_async(has(large[0], 400))
        large[1].disk.set()
        await wait_until_async(has(large[1], 400))
        await wait_until_async(lambda: not any(each.bytes_at_work for each in copied))
    assert contents(large[0]) == leader.led.batches


class BadDisk(FollowedLog):
    """Nothing is ever flushed, once it was tried."""

    async def flushed_copy(self) -> None:
        if self.log.flushed_offset < self.log.end_offset:
            await asyncio.to_thread(self.disk.wait, 60)
            raise NotCopied("it has failed")


@on_uvloop
async def test_who_waits_for_room_goes_on_when_that_cannot_be_flushed(
    led: Leader, tmp_path: Path
) -> None:
    leader, broker = led
    for key in (("u", 1), ("v", 2)):
        leader.partitions[key] = LedPartition()
    for key in (KEY, ("u", 1)):
        leader.partitions[key].batches = batches(*[1] * 400, size=1000)

    failing = [BadDisk(tmp_path), BadDisk(tmp_path, "u", 1)]
    small = FollowedLog(tmp_path, "v", 2)
    for each in failing:
        each.disk.clear()
    async with linked(broker.address, *failing, small, catches_up=True) as (_, copied):
        await wait_until_async(lambda: all(each.log.end_offset for each in failing))
        await asyncio.sleep(0.1)  # it waits for room, not for a moment
        for each in failing:
            each.disk.set()
        await wait_until_async(lambda: all(each.trouble for each in copied[:2]))
        leader.partitions["v", 2].batches += batches(4)
        await wait_until_async(has(small, 4))


def _all_of(requests: Iterable[FetchRequest]) -> list[FetchPartition]:
    return [each for asked in requests for topic in asked.topics for each in topic.partitions]


@on_uvloop
async def test_what_rests_can_be_left(led: Leader, tmp_path: Path) -> None:
    leader, broker = led
    leader.lead(batches(1, 1))

    followed, throttle = FollowedLog(tmp_path), Throttle()
    followed.copies_throttled = True
    now = asyncio.get_running_loop().time()
    throttle.follow(1, now)
    throttle.used(1_000, now)
    fetching = replace(FETCHING, throttle=throttle)
    async with linked(broker.address, followed, fetching=fetching) as (link, (copied,)):
        await wait_until_async(lambda: not copied.is_at_work)
        link.leave(copied)
        assert len(link) == 0
        throttle.follow(None, now)
        link.follow(copied, 0)
        await wait_until_async(has(followed, 2))
