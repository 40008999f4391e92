"""Messages whose producer did not wait for the disk: they are flushed at once for who waits to read
them, and for nobody else. `flush.ms` is an hour here, so nothing else has them flushed."""

import time
from collections.abc import Callable

from tests.broker.api.fetching import ClientSession, asked, fetched, told, whole
from tests.broker.api.running_broker import RawClient, RunningBroker, batch
from wire.batch import headers
from wire.messages import fetch
from wire.messages.fetch import FetchRequest, PartitionData

NewTopic = Callable[..., str]
NEVER = {"flush.ms": "3600000"}


def offsets_in(data: PartitionData) -> list[int]:
    assert isinstance(data.records, memoryview | bytes)
    return [header.base_offset for _, header in headers(memoryview(data.records))]


def test_who_waits_has_it_at_once(
    running: RunningBroker, client: RawClient, new_topic: NewTopic
) -> None:
    name = new_topic(configs=NEVER)
    with running.client() as reader:
        for offset in range(3):
            reader.begin(fetch.API, 12, whole({(name, 0): offset}, wait=20_000))
            client.produce(name, batch(1), acks=1)
            data = told(reader.finish(fetch.API, 12))[name, 0]
            assert offsets_in(data) == [offset]


def test_who_waits_in_a_session_has_it_at_once(
    running: RunningBroker, client: RawClient, new_topic: NewTopic
) -> None:
    name = new_topic(3, NEVER)
    with running.client() as reader:
        session = ClientSession(reader)
        session.fetch({(name, index): 0 for index in range(3)})
        for offset in range(3):
            session.begin({(name, 2): offset})
            client.produce(name, batch(1), 2, acks=1)
            assert offsets_in(session.finish()[name, 2]) == [offset]


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
        reader.begin(
            fetch.API,
            12,
            FetchRequest(
                replica_id=-1,
                max_wait=20_000,
                min_bytes=200 * len(one),
                topics=asked({(name, 0): 0}),
            ),
        )
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
