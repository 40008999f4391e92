"""What committed readers get of a topic, and who writes it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from client.admin import topics as admin
from client.connection.brokers import Brokers
from client.reading.offsets import End, start_offsets
from harness.penstock.mirror import MirrorProcess
from harness.processes.waiting import wait_until
from tests.mirror.workers import partition_of

PATIENCE = 120.0  # seconds
Headers = tuple[tuple[str, bytes | None], ...]


class Message(NamedTuple):
    """All that a consumer gets of one, but for its offset."""

    key: bytes | None
    value: bytes | None
    time: tuple[int, int]
    headers: Headers


def committed(bootstrap: str, topic: str, partition: int = 0) -> list[Message]:
    """All that there is now, in order."""
    return [message for _, message in with_offsets(bootstrap, topic, partition)]


def with_offsets(bootstrap: str, topic: str, partition: int = 0) -> list[tuple[int, Message]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "check.crcs": True,
        }
    )
    found: list[tuple[int, Message]] = []
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(PATIENCE)
            assert message is not None, f"{topic} cannot be read"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            offset = message.offset()
            assert offset is not None
            found.append((offset, _message(message)))
    finally:
        consumer.close()


def _message(message: object) -> Message:
    each: object = message
    headers = tuple((name, value) for name, value in (each.headers() or ()))  # type: ignore[attr-defined]
    return Message(each.key(), each.value(), each.timestamp(), headers)  # type: ignore[attr-defined]


def produce(producer: Producer, topic: str, values: Sequence[str], partition: int = 0) -> None:
    """With keys, headers, and times that are not now."""
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value.encode(),
            key=None if number % 7 == 0 else f"key {number % 5}".encode(),
            partition=partition,
            timestamp=1_700_000_000_000 + 1000 * number,
            headers=[("number", str(number).encode()), ("none", None)] if number % 3 else None,
        )
    assert producer.flush(PATIENCE) == 0


def transaction(
    producer: Producer, ending: Callable[..., None], topic: str, values: Sequence[str]
) -> None:
    producer.begin_transaction()
    produce(producer, topic, values)
    ending(PATIENCE)


def numbered(name: str, count: int = 20) -> list[str]:
    return [f"{name} {number} " + "x" * 50 for number in range(count)]


def wait_copied(mirror: MirrorProcess, source: Brokers, topic: str, partition: int = 0) -> None:
    """Up to where the source ends now."""
    wanted = end(source, topic, partition)

    def is_copied() -> bool:
        standing = partition_of(mirror, f"dc1.{topic}", partition)
        return bool(standing) and standing["copied"] >= wanted

    wait_until(is_copied, what=f"{topic}-{partition} is copied up to {wanted}")


def end(brokers: Brokers, topic: str, partition: int = 0) -> int:
    return start_offsets(brokers, topic, [partition], End())[partition]


def new_source(brokers: Brokers, topic: str, **configs: str) -> None:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    admin.create_topic(brokers, topic, partitions=1, configs=named)
