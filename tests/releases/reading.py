"""The records of a log by librdkafka, which is older than all of this: their digests."""

import hashlib
from collections.abc import Iterator

import msgspec
from confluent_kafka import Consumer, Message, TopicPartition

from tests.releases.kept import Log

_SECONDS = 60


def read(bootstrap: str, topic: str, partition: int, *, compacted: bool) -> Log:
    """What a reader finds who begins at the beginning."""
    digest = hashlib.sha256()
    last: dict[bytes, bytes] = {}
    first, end = ends(bootstrap, topic, partition)
    for message in messages(bootstrap, topic, partition):
        key, value = message.key(), message.value()
        if not compacted:
            record = (message.offset(), message.timestamp(), message.headers(), key, value)
            digest.update(msgspec.msgpack.encode(record))
        elif value is None:
            last.pop(_bytes(key), None)
        else:
            last[_bytes(key)] = _bytes(value)
    if compacted:
        digest.update(msgspec.msgpack.encode(sorted(last.items())))
    return Log(
        topic=topic,
        partition=partition,
        compacted=compacted,
        first=0 if compacted else first,
        end=end,
        digest=digest.hexdigest(),
    )


def ends(bootstrap: str, topic: str, partition: int) -> tuple[int, int]:
    """The first offset, and the one after the last."""
    consumer = _consumer(bootstrap)
    try:
        first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), _SECONDS)
    finally:
        consumer.close()
    return int(first), int(end)


def messages(bootstrap: str, topic: str, partition: int) -> Iterator[Message]:
    """All that are there now."""
    consumer = _consumer(bootstrap)
    target = TopicPartition(topic, partition)
    first, _ = consumer.get_watermark_offsets(target, _SECONDS)
    consumer.assign([TopicPartition(topic, partition, first)])
    try:
        while True:
            message = consumer.poll(_SECONDS)
            assert message is not None, f"no end of {topic}-{partition} within {_SECONDS} s"
            if (error := message.error()) is not None:
                assert error.name() == "_PARTITION_EOF", error
                return
            yield message
    finally:
        consumer.close()


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.partition.eof": True,
            "check.crcs": True,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,
        }
    )


def _bytes(given: str | bytes | None) -> bytes:
    assert isinstance(given, bytes)
    return given
