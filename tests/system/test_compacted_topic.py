"""A compacted topic, through librdkafka, while it is written to and across a SIGKILL."""

import random
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from harness.apache_kafka import dump_log, kafka_classpath, why_no_kafka
from harness.broker_process import BrokerProcess
from harness.waiting import wait_until
from tests.system.topics import create

KEYS = 20
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "20000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}


@pytest.fixture
def broker(chroot: str, tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = {"intervals": {"compaction": 0.2}}
    with BrokerProcess(tmp_path / "broker", zookeeper=chroot, settings=settings) as broker:
        yield broker


def write(bootstrap: str, topic: str, rounds: range, codec: str) -> dict[bytes, bytes]:
    """Every key once a round, every fifth is deleted in the end; what then is to be known."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": codec,
            "linger.ms": 1,
        }
    )
    known = {}
    for number in rounds:
        for key in range(KEYS):
            deleted = key % 5 == 0 and number == rounds[-1]
            value = None if deleted else random.Random(f"{number} {key}").randbytes(150)
            producer.produce(topic, value, b"key-%d" % key)
            if value is not None:
                known[b"key-%d" % key] = value
            else:
                known.pop(b"key-%d" % key, None)
        assert producer.flush(20) == 0
    return known


def read(bootstrap: str, topic: str) -> tuple[int, dict[bytes, bytes]]:
    """How many records there are, and what one knows who has read them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.partition.eof": True,
            "check.crcs": True,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,  # the end is seen by a fetch that finds nothing
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    count, known = 0, dict[bytes, bytes]()
    try:
        while True:
            message = consumer.poll(20)
            assert message is not None, "no end of the partition within 20 s"
            if (error := message.error()) is not None:
                assert error.name() == "_PARTITION_EOF", error
                return count, known
            count += 1
            key, value = message.key(), message.value()
            assert isinstance(key, bytes)
            if value is None:
                known.pop(key, None)
            else:
                assert isinstance(value, bytes)
                known[key] = value
    finally:
        consumer.close()


def test_the_last_value_of_each_key_is_what_readers_find(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    """A topic for each codec, all at once."""
    known: dict[str, Mapping[bytes, bytes]] = {}
    for codec in CODECS:
        create(broker.bootstrap, codec, configs=CONFIGS)
        known[codec] = write(broker.bootstrap, codec, range(30), codec)

    def has_shrunk(codec: str) -> bool:
        count, found = read(broker.bootstrap, codec)
        assert found == known[codec]
        return count < 30 * KEYS / 2

    for codec in CODECS:
        what = f"{codec}: most superseded records are gone"
        wait_until(partial(has_shrunk, codec), within=60, what=what)
    broker.kill()
    broker.start()
    for codec in CODECS:
        assert read(broker.bootstrap, codec)[1] == known[codec]
        known[codec] = write(broker.bootstrap, codec, range(30, 45), codec)
        assert read(broker.bootstrap, codec)[1] == known[codec]
    assert "compaction failed" not in broker.log()
    broker.terminate()
    if kafka_classpath() is None:
        pytest.skip(f"what Kafka says of it was not asked: {why_no_kafka()}")
    logs = [log for codec in CODECS for log in sorted(broker.partition_dir(codec).glob("*.log"))]
    said = dump_log(logs, directory=tmp_path)
    assert "isvalid: false" not in said
    assert said.count("isvalid: true") >= len(logs)
