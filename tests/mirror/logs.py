"""What stands in a topic's logs, and how it comes there."""

import contextlib

from client.admin import topics as admin
from client.connection.brokers import Brokers
from client.errors import ClientError
from client.producing.producer import Producer
from client.reading.fetcher import Fetcher
from client.reading.offsets import Beginning, End, start_offsets
from harness.processes.waiting import wait_until
from wire.record_batches.records import Codec

PATIENCE = 60.0  # seconds

_EPOCH = slice(12, 16)  # of a batch's bytes: each cluster stamps its own


def write(
    brokers: Brokers, topic: str, values: list[bytes], partition: int = 0, codec: Codec = Codec.NONE
) -> None:
    """As batches of a few messages."""
    producer = Producer(brokers, topic, codec=codec, batch_bytes=1_000)
    for value in values:
        producer.send(value, partition=partition)
    producer.flush()


def create(brokers: Brokers, topic: str, values: list[bytes], partitions: int = 1) -> None:
    """A topic with these in its first partition."""
    admin.create_topic(brokers, topic, partitions=partitions)
    write(brokers, topic, values)


def ends(brokers: Brokers, topic: str, partitions: int = 1) -> dict[int, int]:
    return start_offsets(brokers, topic, range(partitions), End())


def batches(brokers: Brokers, topic: str, partition: int = 0) -> list[bytes]:
    """All of a partition's, but for the leader epoch in them."""
    start = start_offsets(brokers, topic, [partition], Beginning())
    end = ends(brokers, topic, partition + 1)[partition]
    fetcher = Fetcher(brokers, topic, start)
    found = []
    try:
        while fetcher.positions[partition] < end:
            for each in fetcher.poll(1.0):
                data = bytearray(each.data)
                data[_EPOCH] = bytes(4)
                found.append(bytes(data))
    finally:
        fetcher.close()
    return found


def values(first: int, count: int) -> list[bytes]:
    return [b"message %d " % number + b"x" * 100 for number in range(first, first + count)]


def wait_copied(there: Brokers, here: Brokers, topic: str, partitions: int = 1) -> None:
    """Up to where the source ends now."""
    wanted, copy = ends(there, topic, partitions), f"dc1.{topic}"

    def is_copied() -> bool:
        with contextlib.suppress(ClientError):
            return here.refresh([copy]).has(copy) and ends(here, copy, partitions) == wanted
        return False

    wait_until(is_copied, what=f"{topic} is copied up to {wanted}")
