"""A compacted topic, through librdkafka, while it is written to and across a SIGKILL."""

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.apache_kafka import dump_log, kafka_classpath, why_no_kafka
from tests.broker_process import BrokerProcess
from tests.server_process import wait_until
from tests.system.topics import create

KEYS = 20
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


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_last_value_of_each_key_is_what_readers_find(
    broker: BrokerProcess, tmp_path: Path, codec: str
) -> None:
    create(broker.bootstrap, "table", configs=CONFIGS)
    known: Mapping[bytes, bytes] = write(broker.bootstrap, "table", range(60), codec)
    written = 60 * KEYS

    def shrunk() -> bool:
        count, found = read(broker.bootstrap, "table")
        assert found == known
        return count < written / 2

    wait_until(shrunk, within=30, what="most superseded records are gone")
    broker.kill()
    broker.start()
    assert read(broker.bootstrap, "table")[1] == known
    known = write(broker.bootstrap, "table", range(60, 90), codec)
    assert read(broker.bootstrap, "table")[1] == known
    assert "compaction failed" not in broker.log()
    broker.terminate()
    if kafka_classpath() is None:
        pytest.skip(f"what Kafka says of it was not asked: {why_no_kafka()}")
    logs = sorted(broker.partition_dir("table").glob("*.log"))
    said = dump_log(logs, directory=tmp_path)
    assert "isvalid: false" not in said
    assert "isvalid: true" in said
