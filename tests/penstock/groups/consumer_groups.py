"""Groups of consumers, and topics that they read."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from confluent_kafka import Consumer

from tests.penstock.running import At


@contextmanager
def member(at: At, group: str, topic: str, count: int) -> Iterator[Consumer]:
    """One of librdkafka's, that has read so many messages."""
    consumer = Consumer(
        {
            "bootstrap.servers": at.bootstrap,
            "group.id": group,
            "client.id": "reader-of-a-test",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    with closing(consumer):
        consumer.subscribe([topic])
        assert len(consumer.consume(count, timeout=60)) == count
        consumer.commit(asynchronous=False)
        yield consumer


def fill_topic(at: At, topic: str, *, partitions: int = 2) -> None:
    """With three lines in each of its partitions."""
    at.output("topics", "create", topic, "--partitions", str(partitions))
    for number in range(partitions):
        lines = "".join(f"{number}-{line}\n" for line in range(3))
        at.output("produce", topic, "--partition", str(number), stdin=lines)


def read_all(at: At, group: str, topic: str, count: int = 6) -> None:
    """The group is there, and has no members."""
    with member(at, group, topic, count):
        pass


def describe(at: At, group: str) -> Any:
    (found,) = at.json("groups", "describe", group)
    return found


def offsets(at: At, group: str) -> list[int | None]:
    return [each["committed"] for each in describe(at, group)["partitions"]]


def names(at: At) -> list[str]:
    return [each["name"] for each in at.json("groups", "list")]
