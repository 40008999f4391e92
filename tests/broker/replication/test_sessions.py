"""Fetch sessions by themselves: who has one, for how long, and what it is to look at.

The clock is the test's, ids are counted, and a partition is a bell that a test rings.
"""

import itertools
from collections.abc import Callable, Iterable

import pytest

from broker.errors import ApiError
from broker.replication.sessions import NO_SESSION, FetchSession, FetchSessions
from harness.processes.hand_clock import HandClock
from wire.errors import ErrorCode
from wire.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

ANNA, BERTA, CLARA = ("anna", ""), ("berta", ""), ("ANONYMOUS", "10.0.0.1")
IDLE = 121.0


class Bells:
    """A partition as far as sessions know of one."""

    def __init__(self) -> None:
        self.exposure: set[Callable[[], None]] = set()
        self.end: set[Callable[[], None]] = set()
        self.readers: set[Callable[[], None]] = set()

    def watch(self, callback: Callable[[], None], *, reads: bool = False) -> None:
        self.exposure.add(callback)
        if reads:
            self.readers.add(callback)

    def unwatch(self, callback: Callable[[], None]) -> None:
        self.exposure.discard(callback)
        self.readers.discard(callback)

    def watch_end(self, callback: Callable[[], None]) -> None:
        self.end.add(callback)

    def unwatch_end(self, callback: Callable[[], None]) -> None:
        self.end.discard(callback)

    def ring(self, who: set[Callable[[], None]]) -> None:
        for callback in tuple(who):
            callback()


class Waiter:
    def __init__(self) -> None:
        self.woken = self.woken_later = 0
        self.ended: list[ErrorCode] = []

    def wake(self) -> None:
        self.woken += 1

    def wake_later(self) -> None:
        self.woken_later += 1

    def end(self, code: ErrorCode) -> None:
        self.ended.append(code)


def wants(*indexes: int, topic: str = "t", offset: int = 0) -> FetchTopic:
    return FetchTopic(
        topic=topic,
        partitions=tuple(
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1000)
            for index in indexes
        ),
    )


def first(*topics: FetchTopic, replica_id: int = -1) -> FetchRequest:
    return FetchRequest(
        replica_id=replica_id, max_wait=0, min_bytes=1, session_epoch=0, topics=topics
    )


def more(
    session_id: int,
    epoch: int,
    *topics: FetchTopic,
    forget: Iterable[int] = (),
    replica_id: int = -1,
) -> FetchRequest:
    forgotten = ForgottenTopic(topic="t", partitions=tuple(forget))
    return FetchRequest(
        replica_id=replica_id,
        max_wait=0,
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
        topics=topics,
        forgotten_topics_data=(forgotten,),
    )


def found(index: int, *, records: bytes = b"", **fields: object) -> PartitionData:
    told = {"high_watermark": 5, "log_start_offset": 0, **fields}
    return PartitionData(partition_index=index, records=records, **told)  # type: ignore[arg-type]


def indexes(session: FetchSession) -> list[int]:
    return [each.wanted.partition for each in session.to_look_at]


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def sessions_of(clock: HandClock, *, sessions: int = 4, partitions: int = 1000) -> FetchSessions:
    numbers = itertools.count(1)
    return FetchSessions(
        clock, most_sessions=sessions, most_partitions=partitions, new_id=lambda: next(numbers)
    )


def opened(all_: FetchSessions, request: FetchRequest, owner: tuple[str, str]) -> FetchSession:
    session = all_.open(request, owner)
    assert session is not None
    return session


def rested(session: FetchSession) -> Bells:
    """All of its partitions have been answered with nothing; they are one partition here."""
    bells = Bells()
    for each in session.to_look_at:
        session.answered(each, found(each.wanted.partition))
        session.rest(each, bells)
    assert not session.to_look_at
    return bells


def refusal(all_: FetchSessions, request: FetchRequest, owner: tuple[str, str]) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        all_.resume(request, owner)
    return refused.value.code


# Ids and epochs


def test_each_request_of_a_session_has_the_next_epoch(clock: HandClock) -> None:
    all_ = sessions_of(clock)
    session = opened(all_, first(wants(0, 1)), ANNA)
    assert (session.id, session.epoch) == (1, 1)
    for epoch in (1, 2, 3):
        assert all_.resume(more(1, epoch), ANNA) is session
    for wrong in (1, 3, 5, -7):
        assert refusal(all_, more(1, wrong), ANNA) is ErrorCode.invalid_fetch_session_epoch
    assert all_.resume(more(1, 4), ANNA) is session, "a wrong epoch changes nothing"
    session.epoch = 2**31 - 1
    all_.resume(more(1, 2**31 - 1), ANNA)
    assert session.epoch == 1, "after the last comes the first"


def test_ids_are_random_positive_and_not_given_twice(clock: HandClock) -> None:
    numbers = iter((0, 7, 7, 7, 9))
    all_ = FetchSessions(clock, new_id=lambda: next(numbers))
    assert [opened(all_, first(wants(0)), ANNA).id for _ in range(2)] == [7, 9]
    real = FetchSessions(clock)
    given = [opened(real, first(wants(0)), ANNA).id for _ in range(100)]
    assert all(0 < each < 2**31 for each in given)
    assert len({each >> 16 for each in given}) > 50, "nobody can guess them"


def test_a_session_is_its_owners_alone(clock: HandClock) -> None:
    all_ = sessions_of(clock)
    opened(all_, first(wants(0)), ANNA)
    follower = opened(all_, first(wants(0), replica_id=2), ANNA)
    for request, who in (
        (more(1, 1), BERTA),
        (more(1, 1, replica_id=2), ANNA),
        (more(follower.id, 1), ANNA),
        (more(follower.id, 1, replica_id=3), ANNA),
        (more(77, 1), ANNA),
        (more(0, 1), ANNA),
    ):
        assert refusal(all_, request, who) is ErrorCode.fetch_session_id_not_found
    all_.close(1, BERTA)
    assert all_.resume(more(1, 1), ANNA).id == 1
    all_.close(1, ANNA)
    assert refusal(all_, more(1, 2), ANNA) is ErrorCode.fetch_session_id_not_found
    assert len(all_) == 1


def test_of_two_requests_the_later_one_is_answered(clock: HandClock) -> None:
    all_ = sessions_of(clock)
    session = opened(all_, first(wants(0)), ANNA)
    waiter = session.waiting = Waiter()
    all_.resume(more(1, 1), ANNA)
    assert waiter.ended == [ErrorCode.invalid_fetch_session_epoch]
    waiter = session.waiting = Waiter()
    all_.close(1, ANNA)
    assert waiter.ended == [ErrorCode.fetch_session_id_not_found]
    assert session.id == NO_SESSION


# What it has to look at


def test_only_what_changed_is_to_be_looked_at(clock: HandClock) -> None:
    all_ = sessions_of(clock)
    session = opened(all_, first(wants(*range(100))), ANNA)
    assert indexes(session) == list(range(100))
    bells = [Bells() for _ in range(100)]
    for each in session.to_look_at:
        session.answered(each, found(each.wanted.partition))
        session.rest(each, bells[each.wanted.partition])

    all_.resume(more(1, 1, wants(40, offset=3)), ANNA)
    assert indexes(session) == [40]
    bells[70].ring(bells[70].exposure)
    bells[7].ring(bells[7].exposure)
    bells[40].ring(bells[40].exposure)
    assert indexes(session) == [40, 70, 7]
    assert session.to_look_at[0].wanted.fetch_offset == 3
    assert not bells[7].exposure, "a bell rings once, until it was looked at"


def test_who_was_answered_with_records_goes_to_the_end(clock: HandClock) -> None:
    session = opened(sessions_of(clock), first(wants(0, 1, 2)), ANNA)
    zero, one, _ = session.to_look_at
    session.answered(zero, found(0, records=b"batch"))
    assert indexes(session) == [1, 2, 0]
    session.answered(one, found(1))
    assert indexes(session) == [1, 2, 0], "nothing was taken of it: it has its turn yet"
    session.answered(one, found(1, records=b"batch"))
    assert indexes(session) == [2, 0, 1]


def test_what_is_news(clock: HandClock) -> None:
    session = opened(sessions_of(clock), first(wants(0)), ANNA)
    (entry,) = session.to_look_at
    assert entry.has_news(found(0))
    entry.tell(found(0))
    assert not entry.has_news(found(0))
    for news in (
        found(0, high_watermark=6),
        found(0, log_start_offset=1),
        found(0, records=b"batch"),
        found(0, preferred_read_replica=0),
        found(0, diverging_epoch=EpochEndOffset(epoch=0, end_offset=0)),
        found(0, error_code=ErrorCode.not_leader_or_follower),
    ):
        assert entry.has_news(news)
    entry.tell(found(0, error_code=ErrorCode.not_leader_or_follower))
    assert entry.has_news(found(0)), "that the error has ended"


def test_forgotten_partitions_are_not_watched_any_more(clock: HandClock) -> None:
    all_ = sessions_of(clock)
    session = opened(all_, first(wants(0, 1, 2)), ANNA)
    bells = rested(session)
    all_.resume(more(1, 1, forget=(1, 77)), ANNA)
    assert len(bells.exposure) == 2
    bells.ring(bells.exposure)
    assert indexes(session) in ([0, 2], [2, 0])
    assert all_.partitions == 2
    all_.resume(more(1, 2, forget=(0, 2)), ANNA)
    assert session.id == NO_SESSION
    assert (len(all_), all_.partitions) == (0, 0)


def test_a_closed_session_leaves_no_bell(clock: HandClock) -> None:
    all_ = sessions_of(clock)
    for replica_id in (-1, 2):
        session = opened(all_, first(wants(0, 1), replica_id=replica_id), ANNA)
        bells = rested(session)
        all_.close(session.id, ANNA)
        assert not bells.exposure
        assert not bells.end


def test_a_consumer_is_woken_by_what_is_exposed_and_a_follower_by_what_is_appended(
    clock: HandClock,
) -> None:
    """Of what is exposed it is told later."""
    session = opened(sessions_of(clock), first(wants(0)), ANNA)
    bells, waiter = rested(session), Waiter()
    session.waiting = waiter
    assert not bells.end
    bells.ring(bells.exposure)
    assert (waiter.woken, waiter.woken_later) == (1, 0)
    session = opened(sessions_of(clock), first(wants(0, 1), replica_id=2), ANNA)
    waiter = session.waiting = Waiter()
    bells = rested(session)
    bells.ring(bells.exposure)
    assert (waiter.woken, waiter.woken_later) == (0, 2)
    assert indexes(session) in ([0, 1], [1, 0])
    bells = rested(session)
    bells.ring(bells.end)
    assert (waiter.woken, waiter.woken_later) == (2, 2)
    assert not bells.exposure


def test_a_partition_that_was_made_anew_is_watched_in_the_place_of_the_old_one(
    clock: HandClock,
) -> None:
    session = opened(sessions_of(clock), first(wants(0)), ANNA)
    (entry,) = session.to_look_at
    old, new = Bells(), Bells()
    session.rest(entry, old)
    session.look_at(entry)
    session.rest(entry, new)
    assert (len(old.exposure), len(new.exposure)) == (0, 1)


def test_once_a_minute_all_are_looked_at(clock: HandClock) -> None:
    all_ = sessions_of(clock)
    session = opened(all_, first(wants(0, 1, 2)), ANNA)
    rested(session)
    for epoch, seconds in enumerate((59.0, 2.0, 59.0, 2.0), start=1):
        clock.now += seconds
        all_.resume(more(1, epoch), ANNA)
        assert indexes(session) == ([0, 1, 2] if seconds == 2.0 else [])
        rested(session)


# Room


def test_who_finds_no_room_has_no_session(clock: HandClock) -> None:
    all_ = sessions_of(clock, sessions=2)
    opened(all_, first(wants(0)), ANNA)
    opened(all_, first(wants(0)), ANNA)
    assert all_.open(first(wants(0)), ANNA) is None
    assert all_.open(first(), ANNA) is None, "nor who wants nothing"
    small = sessions_of(clock, partitions=10)
    opened(small, first(wants(*range(8))), ANNA)
    assert small.open(first(wants(0, 1, 2)), ANNA) is None
    opened(small, first(wants(0, 1)), ANNA)


def test_who_was_idle_for_two_minutes_gives_way_to_anybody(clock: HandClock) -> None:
    all_ = sessions_of(clock, sessions=3)
    follower = opened(all_, first(wants(0), replica_id=2), ANNA)
    old = opened(all_, first(wants(*range(50))), ANNA)
    busy = opened(all_, first(wants(0)), ANNA)
    clock.now += IDLE - 2
    all_.resume(more(busy.id, 1), ANNA)
    assert all_.open(first(wants(0)), ANNA) is None
    clock.now += 2
    new = opened(all_, first(wants(0)), ANNA)
    assert follower.id == NO_SESSION, "who asks for nothing follows nobody"
    newest = opened(all_, first(wants(0)), ANNA)
    assert old.id == NO_SESSION
    assert 0 not in {busy.id, new.id, newest.id}


def test_nobody_can_keep_others_out(clock: HandClock) -> None:
    all_ = sessions_of(clock, sessions=6)
    annas = [opened(all_, first(wants(0)), ANNA) for _ in range(6)]
    all_.resume(more(annas[0].id, 1), ANNA)
    bertas = [opened(all_, first(wants(0)), BERTA) for _ in range(3)]
    assert [each.id == NO_SESSION for each in annas] == [False, True, True, True, False, False]
    assert all_.open(first(wants(0)), BERTA) is None, "each has half of it"
    clara = opened(all_, first(wants(0)), CLARA)
    assert len([each for each in annas + bertas if each.id != NO_SESSION]) == 5
    for _ in range(10):
        all_.open(first(wants(0)), ANNA)
        all_.open(first(wants(0)), BERTA)
    assert clara.id != NO_SESSION


def test_nobody_can_keep_others_out_with_partitions(clock: HandClock) -> None:
    all_ = sessions_of(clock, sessions=100, partitions=100)
    big = opened(all_, first(wants(*range(90))), ANNA)
    small = opened(all_, first(wants(*range(10))), ANNA)
    berta = opened(all_, first(wants(*range(10))), BERTA)
    assert big.id == NO_SESSION, "it was not used for longer than the other"
    assert 0 not in {small.id, berta.id}
    assert all_.partitions == 20


def test_among_the_sessions_of_one_client_an_older_and_smaller_one_gives_way(
    clock: HandClock,
) -> None:
    all_ = sessions_of(clock, sessions=2)
    large = opened(all_, first(wants(*range(9))), ANNA)
    small = opened(all_, first(wants(0)), ANNA)
    clock.now += IDLE - 2
    for each in (large, small):
        all_.resume(more(each.id, 1), ANNA)
    assert all_.open(first(wants(*range(5))), ANNA) is None, "neither is old"
    clock.now += 2
    opened(all_, first(wants(*range(5))), ANNA)
    assert (large.id, small.id) == (1, NO_SESSION)
    assert all_.open(first(wants(0)), ANNA) is None, "it is the smallest itself"


def test_followers_come_before_clients_and_give_way_to_none(clock: HandClock) -> None:
    all_ = sessions_of(clock, sessions=2)
    anna = opened(all_, first(wants(*range(9))), ANNA)
    berta = opened(all_, first(wants(0)), BERTA)
    followers = [opened(all_, first(wants(0), replica_id=2), CLARA) for _ in range(2)]
    assert {anna.id, berta.id} == {NO_SESSION}
    assert all_.open(first(wants(*range(50))), ANNA) is None
    assert all_.open(first(wants(0), replica_id=3), CLARA) is None
    assert NO_SESSION not in {each.id for each in followers}


def test_what_is_added_needs_room_too(clock: HandClock) -> None:
    all_ = sessions_of(clock, partitions=10)
    session = opened(all_, first(wants(*range(8))), ANNA)
    assert all_.resume(more(1, 1, wants(8, 9)), ANNA).id == 1
    assert all_.partitions == 10
    ended = all_.resume(more(1, 2, wants(10)), ANNA)
    assert ended is session
    assert ended.id == NO_SESSION, "it is answered once more"
    assert len(ended.partitions) == 11
    assert (len(all_), all_.partitions) == (0, 0)


def test_the_account_is_right_whatever_happens(clock: HandClock) -> None:
    all_ = sessions_of(clock, sessions=5, partitions=40)
    held: list[FetchSession] = []
    for step in range(300):
        owner = (ANNA, BERTA, CLARA)[step % 3]
        clock.now += (step * 7) % 13
        session = all_.open(
            first(wants(*range(step % 11)), replica_id=2 if step % 17 == 0 else -1), owner
        )
        held = [each for each in held if each.id != NO_SESSION]
        if session is not None:
            held.append(session)
        if held and step % 2:
            each = held[step % len(held)]
            request = more(
                each.id,
                each.epoch,
                wants(step % 23, step % 5),
                forget=(step % 7,),
                replica_id=each.replica_id,
            )
            all_.resume(request, each.owner)
        if held and step % 5 == 0:
            each = held[step % len(held)]
            all_.close(each.id, each.owner)
        alive = [each for each in held if each.id != NO_SESSION]
        assert len(all_) == len(alive) <= 5
        assert all_.partitions == sum(len(each.partitions) for each in alive) <= 40
