"""Fetches: of Kafka's own consumer, in sessions with many partitions, of which nothing is missed or
comes twice; and of clients that wait for records."""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from harness.java.jvm import Jvm
from harness.penstock.broker import BrokerProcess
from tests.system.clients.contents import EPOCH
from tests.system.clients.interface import Record
from tests.system.clients.librdkafka import Librdkafka
from tests.system.conftest import KAFKA_VERSIONS, Server, against_both, kafka_java
from tests.system.produce import must_produce
from tests.system.raw import FETCH, RawConnection, fetch_body, read_fetched, request
from tests.system.topics import create

PARTITIONS = 100


@pytest.fixture(scope="module", params=KAFKA_VERSIONS)
def java(request: pytest.FixtureRequest) -> Iterator[Jvm]:
    with kafka_java(request.param) as running:
        yield running


class JavaConsumer:
    """Assigned all partitions of a topic, from their beginning on."""

    def __init__(self, java: Jvm, bootstrap: str, topic: str, **settings: str) -> None:
        deserializer = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
        wanted = {
            "bootstrap.servers": bootstrap,
            "key.deserializer": deserializer,
            "value.deserializer": deserializer,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        self._java = java
        self._topic = topic
        self._consumer = java.new("org.apache.kafka.clients.consumer.KafkaConsumer", wanted)
        everything = self._partitions(range(PARTITIONS))
        self._consumer.assign(everything)
        self._consumer.seekToBeginning(everything)
        self._moment = java.find("java.time.Duration").ofMillis(200)
        self.found: defaultdict[int, list[int]] = defaultdict(list)

    def _partitions(self, indexes: Sequence[int]) -> list[Any]:
        name = "org.apache.kafka.common.TopicPartition"
        return [self._java.new(name, self._topic, index) for index in indexes]

    def pause(self, *indexes: int) -> None:
        self._consumer.pause(self._partitions(indexes))

    def resume(self, *indexes: int) -> None:
        self._consumer.resume(self._partitions(indexes))

    def poll(self) -> None:
        records = self._consumer.poll(self._moment).iterator()
        while records.hasNext():
            record = records.next()
            self.found[record.partition()].append(record.offset())

    def poll_for(self, count: int) -> None:
        """Until it has found so many. That there are more would show at the end."""
        while sum(map(len, self.found.values())) < count:
            self.poll()

    def session(self) -> tuple[int, int]:
        """Id and next epoch of its session with the only broker."""
        handlers = _field(_field(_field(self._consumer, "delegate"), "fetcher"), "sessionHandlers")
        (handler,) = handlers.values()
        state = _field(handler, "nextMetadata")
        return state.sessionId(), state.epoch()

    def close(self) -> None:
        self._consumer.close()


def _field(of: Any, name: str) -> Any:
    """What only the object itself is meant to see."""
    kind = of.getClass()
    while True:
        try:
            field = kind.getDeclaredField(name)
        except Py4JJavaError:
            kind = kind.getSuperclass()
            continue
        field.setAccessible(True)
        return field.get(of)


@against_both
@pytest.mark.timeout(300)
def test_a_consumer_of_many_partitions(server: Server, topic: str, java: Jvm) -> None:
    create(server.bootstrap, topic, partitions=PARTITIONS)
    producer, written = Librdkafka(), [0] * PARTITIONS

    def write(*indexes: int, count: int = 1) -> None:
        records = [Record(b"value", timestamp=EPOCH)] * count
        for index in indexes:
            producer.produce(server.bootstrap, topic, index, records)
            written[index] += count

    write(3, 50, count=20)
    # A few records fill an answer, so that partitions have to take turns.
    consumer = JavaConsumer(java, server.bootstrap, topic, fetch_max_bytes="1000")
    try:
        consumer.poll_for(sum(written))
        session_id, epoch = consumer.session()
        assert session_id
        for indexes in ((0, 99), (7,), (50, 51, 52), (99,)):
            write(*indexes)
            consumer.poll_for(sum(written))
        # What is paused is forgotten, what goes on is new to the session.
        consumer.pause(7, 8)
        consumer.poll()
        before = sum(written)
        write(7, 8, count=5)
        write(60, count=3)
        consumer.poll_for(before + 3)
        assert len(consumer.found[7]) == 1
        consumer.resume(7, 8)
        consumer.poll_for(sum(written))
        consumer.poll()
        assert {index: list(range(count)) for index, count in enumerate(written) if count} == {
            index: offsets for index, offsets in consumer.found.items() if offsets
        }
        later_id, later_epoch = consumer.session()
        assert later_id == session_id, "it is one session all the time"
        assert later_epoch > epoch + 5
    finally:
        consumer.close()


def test_those_who_wait_cost_nothing_and_are_served_at_once(
    running_broker: BrokerProcess, topic: str
) -> None:
    """A hundred readers at the end of a log."""
    broker = running_broker
    create(broker.bootstrap, topic)
    with ExitStack() as stack:
        readers = [stack.enter_context(RawConnection(broker.bootstrap)) for _ in range(100)]
        body = fetch_body(topic, 0, 0, max_bytes=1_000_000, wait_ms=60_000)
        for reader in readers:
            reader.send(request(FETCH, 4, body))
        before = broker.cpu_seconds()
        time.sleep(2)  # A while in which nothing is expected to happen.
        assert broker.cpu_seconds() - before < 0.2
        must_produce(broker.bootstrap, topic, [b"at last"])
        began = time.monotonic()
        for reader in readers:
            assert b"at last" in read_fetched(reader.answer()).records
        assert time.monotonic() - began < 50


def test_a_wait_ends_in_time_without_anything_to_show(
    running_broker: BrokerProcess, topic: str
) -> None:
    create(running_broker.bootstrap, topic)
    with RawConnection(running_broker.bootstrap) as reader:
        began = time.monotonic()
        body = fetch_body(topic, 0, 0, max_bytes=1000, wait_ms=700)
        fetched = read_fetched(reader.ask(FETCH, 4, body))
        assert (fetched.error, fetched.records) == (0, b"")
        assert 0.6 < time.monotonic() - began < 10
