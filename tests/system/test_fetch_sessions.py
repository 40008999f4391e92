"""Kafka's own consumer in fetch sessions with many partitions: nothing is missed, nothing twice."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from harness.apache_kafka import NEWEST, VERSION, kafka_classpath, why_no_kafka
from harness.jvm import Jvm
from tests.system.clients.contents import EPOCH
from tests.system.clients.interface import Record
from tests.system.clients.librdkafka import Librdkafka
from tests.system.conftest import Server, against_both
from tests.system.topics import create

PARTITIONS = 100


@pytest.fixture(scope="module", params=[VERSION, NEWEST])
def java(request: pytest.FixtureRequest) -> Iterator[Jvm]:
    classpath = kafka_classpath(request.param)
    if classpath is None:
        pytest.skip(f"Apache Kafka cannot be had: {why_no_kafka(request.param)}")
    with Jvm(classpath) as running:
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
