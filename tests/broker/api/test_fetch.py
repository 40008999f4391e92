"""Fetch: sessions (KIP-227) as a client has them, and messages that are flushed for who waits."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from broker.configs.config import Intervals
from tests.broker.api.fetching import ClientSession, asked, fetched, offsets_in, told, whole
from tests.broker.api.requests import delete
from tests.broker.api.running_broker import RawClient, RunningBroker, batch
from wire.errors import ErrorCode
from wire.messages import fetch
from wire.messages.fetch import FetchRequest

NewTopic = Callable[..., str]
WITH_SESSIONS = range(7, 13)


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, Any]:
    return {"intervals": Intervals(checkpoint=3600.0)}  # which would flush logs


@pytest.mark.parametrize("version", WITH_SESSIONS)
def test_only_what_is_new_is_told(client: RawClient, new_topic: NewTopic, version: int) -> None:
    name = new_topic(3)
    client.produce(name, batch(1), 1)
    session = ClientSession(client, version=version)
    first = session.fetch({(name, index): 0 for index in range(3)})
    assert list(first) == [(name, 0), (name, 1), (name, 2)]
    assert [each.high_watermark for each in first.values()] == [0, 1, 0]
    assert offsets_in(first[name, 1]) == [0]
    assert 0 < session.id < 2**31

    again = session.fetch()
    assert list(again) == [(name, 1)], "the client has not gone on from there"
    assert offsets_in(again[name, 1]) == [0]
    assert session.fetch({(name, 1): 1}) == {}
    assert session.fetch() == {}
    client.produce(name, batch(1, 2), 2)
    news = session.fetch()
    assert list(news) == [(name, 2)]
    assert (news[name, 2].high_watermark, offsets_in(news[name, 2])) == (2, [0])
    assert session.fetch({(name, 2): 2}) == {}
    assert session.epoch == 6


@pytest.mark.parametrize("version", [*range(4, 7), 12])
def test_who_is_older_or_wants_none_has_no_session(
    client: RawClient, new_topic: NewTopic, version: int
) -> None:
    name = new_topic()
    for _ in range(2):
        answer = client.ask(fetch.API, version, whole({(name, 0): 0}))
        assert (answer.session_id, list(told(answer))) == (0, [(name, 0)])


def code_of(client: RawClient, request: FetchRequest) -> ErrorCode:
    answer = client.ask(fetch.API, 12, request)
    assert not answer.error_code or (answer.session_id, answer.responses) == (0, ())
    return answer.error_code


def test_a_whole_request_ends_the_session_that_it_names(
    client: RawClient, new_topic: NewTopic
) -> None:
    name = new_topic()
    for epoch in (0, -1):
        session = ClientSession(client)
        session.fetch({(name, 0): 0})
        left, session.epoch = session.id, epoch
        answer = client.ask(fetch.API, 12, session.request({(name, 0): 0}))
        assert list(told(answer)) == [(name, 0)]
        assert answer.session_id != left
        assert bool(answer.session_id) == (epoch == 0)
        session.epoch = 1
        assert code_of(client, session.request({})) is ErrorCode.fetch_session_id_not_found


@pytest.mark.parametrize("index", [0, 199])
def test_a_session_waits_for_all_of_its_partitions(
    running: RunningBroker, client: RawClient, new_topic: NewTopic, index: int
) -> None:
    name = new_topic(200)
    session = ClientSession(client)
    assert len(session.fetch({(name, each): 0 for each in range(200)})) == 200
    session.begin()
    with running.client() as other:
        # The broker has looked at the first request when it answers one that came after it.
        fetched(other, whole({(name, 0): 0}))
        other.produce(name, batch(1), index)
    news = session.finish()
    assert list(news) == [(name, index)]
    assert session.fetch({(name, index): 1}) == {}


def test_a_session_waits_for_as_much_as_is_wanted(
    running: RunningBroker, client: RawClient, new_topic: NewTopic
) -> None:
    name = new_topic(2)
    session = ClientSession(client)
    session.fetch({(name, 0): 0, (name, 1): 0})
    size = len(batch(1))
    session.begin(min_bytes=3 * size)
    with running.client() as other:
        for index in (0, 1, 0):
            fetched(other, whole({(name, 0): 0}))
            other.produce(name, batch(1), index)
    news = session.finish()
    assert {key: offsets_in(each) for key, each in news.items()} == {
        (name, 0): [0, 1],
        (name, 1): [0],
    }


def test_a_session_outlives_its_connection(
    running: RunningBroker, client: RawClient, new_topic: NewTopic
) -> None:
    name = new_topic(2)
    with running.client() as first:
        session = ClientSession(first)
        session.fetch({(name, 0): 0, (name, 1): 0})
        session.begin()
        fetched(client, whole({(name, 0): 0}))
    session.client = client
    session.epoch = 2
    client.produce(name, batch(1), 1)
    assert list(session.fetch()) == [(name, 1)]


def test_errors_are_told_again_until_they_end(client: RawClient, new_topic: NewTopic) -> None:
    name = new_topic(2)
    session = ClientSession(client)
    missing = (name, 2)
    first = session.fetch({(name, 0): 0, (name, 1): 7, missing: 0})
    out, unknown = ErrorCode.offset_out_of_range, ErrorCode.unknown_topic_or_partition
    expected = {(name, 1): out, missing: unknown}
    assert {key: each.error_code for key, each in first.items()} == {
        (name, 0): ErrorCode.none,
        **expected,
    }
    for _ in range(2):
        again = session.fetch()
        assert {key: each.error_code for key, each in again.items()} == expected
    well = session.fetch({(name, 1): 0}, forget=[missing])
    assert {key: each.error_code for key, each in well.items()} == {(name, 1): ErrorCode.none}
    assert session.fetch() == {}


def test_a_topic_that_is_deleted_ends_the_wait_of_a_session(
    running: RunningBroker, client: RawClient, new_topic: NewTopic
) -> None:
    name, other_name = new_topic(), new_topic()
    session = ClientSession(client)
    session.fetch({(name, 0): 0, (other_name, 0): 0})
    session.begin()
    with running.client() as other:
        fetched(other, whole({(other_name, 0): 0}))
        delete(other, name)
    while (news := session.finish())[name, 0].error_code is ErrorCode.not_leader_or_follower:
        session.begin()  # it was closed, and is in the map still
    assert {key: each.error_code for key, each in news.items()} == {
        (name, 0): ErrorCode.unknown_topic_or_partition
    }


def test_who_asks_for_nothing_is_answered_at_once(client: RawClient) -> None:
    request = FetchRequest(max_wait=60_000, min_bytes=1, session_epoch=0, topics=asked({}))
    answer = client.ask(fetch.API, 12, request)
    assert (answer.session_id, answer.responses) == (0, ())


# Messages whose producer did not wait for the disk: they are flushed at once for who waits to read
# them, and for nobody else. `flush.ms` is an hour here, so nothing else has them flushed.
NEVER = {"flush.ms": "3600000"}


def test_who_waits_has_it_at_once(
    running: RunningBroker, client: RawClient, new_topic: NewTopic
) -> None:
    """With and without a session."""
    name = new_topic(3, NEVER)
    with running.client() as reader:
        session = ClientSession(reader)
        session.fetch({(name, index): 0 for index in range(3)})
        for offset in range(3):
            session.begin({(name, 2): offset})
            client.produce(name, batch(1), 2, acks=1)
            assert offsets_in(session.finish()[name, 2]) == [offset]
        for offset in range(3):
            reader.begin(fetch.API, 12, whole({(name, 0): offset}, wait=20_000))
            client.produce(name, batch(1), acks=1)
            assert offsets_in(told(reader.finish(fetch.API, 12))[name, 0]) == [offset]


def test_what_was_there_before_is_flushed_for_who_comes(
    client: RawClient, new_topic: NewTopic
) -> None:
    name = new_topic(configs=NEVER)
    client.produce(name, batch(1, 2), acks=1)
    assert offsets_in(fetched(client, whole({(name, 0): 0}, wait=20_000))) == [0]


def test_all_of_it_is_flushed_while_it_is_read(
    running: RunningBroker, client: RawClient, new_topic: NewTopic
) -> None:
    """Also what arrives while a flush is under way, and when its reader has not all it wants."""
    name = new_topic(configs=NEVER)
    one = batch(1)
    with running.client() as reader:
        wanted = asked({(name, 0): 0})
        request = FetchRequest(max_wait=20_000, min_bytes=200 * len(one), topics=wanted)
        reader.begin(fetch.API, 12, request)
        for _ in range(200):
            client.produce(name, one, acks=1)
        data = told(reader.finish(fetch.API, 12))[name, 0]
        assert offsets_in(data) == list(range(200))


def test_nothing_is_flushed_for_nobody(
    running: RunningBroker, client: RawClient, new_topic: NewTopic
) -> None:
    name, other = new_topic(configs=NEVER), new_topic(configs=NEVER)
    with running.client() as reader:
        reader.begin(fetch.API, 12, whole({(other, 0): 0}, wait=20_000))
        client.produce(name, batch(1), acks=1)
        time.sleep(0.3)
        assert running.broker.partitions.find(name, 0).log.flushed_offset == 0
        assert fetched(client, whole({(name, 0): 0})).high_watermark == 0
        client.produce(other, batch(1), acks=1)
        assert offsets_in(told(reader.finish(fetch.API, 12))[other, 0]) == [0]
        assert running.broker.partitions.find(name, 0).log.flushed_offset == 0
