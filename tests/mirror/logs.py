"""What stands in a topic's logs, and how it comes there."""

from client.brokers import Brokers
from client.fetcher import Fetcher
from client.offsets import Beginning, End, start_offsets
from client.producer import Producer
from wire.records import Codec

_EPOCH = slice(12, 16)  # of a batch's bytes: each cluster stamps its own


def write(
    brokers: Brokers, topic: str, values: list[bytes], partition: int = 0, codec: Codec = Codec.NONE
) -> None:
    """As batches of a few messages."""
    producer = Producer(brokers, topic, codec=codec, batch_bytes=1_000)
    for value in values:
        producer.send(value, partition=partition)
    producer.flush()


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
