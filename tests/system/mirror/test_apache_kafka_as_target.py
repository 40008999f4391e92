"""Apache Kafka as the target, while the mirror, the target and the source are killed at random:
each message that the source has is there once, in order. Penstock is the source."""

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from client import admin
from client.bootstrap import Bootstrap
from client.brokers import Brokers
from harness.apache_kafka import QUICK_JVM, ApacheKafka, kafka_classpath, why_no_kafka
from harness.broker_cluster import BrokerCluster
from harness.mirror_process import MirrorProcess, side
from harness.waiting import wait_until
from tests.mirror.kafka_target.messages import committed, end
from tests.mirror.workers import partition_of

TOPIC, PARTITIONS = "clicks", 3
_WITHIN = 300.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    if kafka_classpath() is None:
        pytest.skip(why_no_kafka())
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), jvm=QUICK_JVM) as kafka:
        yield kafka


@pytest.mark.long
@pytest.mark.parametrize("seed", [1])
def test_each_message_once(kafka: ApacheKafka, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with BrokerCluster(tmp_path / "source", brokers=1, settings={"cluster": "dc1"}) as source:
        mirror = MirrorProcess(
            tmp_path / "mirror",
            source=side("dc1", source.bootstrap.split(",")),
            target=side("offline", [kafka.bootstrap]),
            settings={"topics": [TOPIC], "interval": 0.5, "groups": {"sync": False}},
        )
        with Brokers(Bootstrap.of(source.bootstrap), patience_seconds=_WITHIN) as there:
            admin.create_topic(there, TOPIC, partitions=PARTITIONS)
            writer = _Writer(source.bootstrap)
            with mirror, writer:
                for fault in ("mirror", "target", "mirror", "source", "mirror", "target"):
                    _wait_progress(mirror, chance.randint(1, 400))
                    match fault:
                        case "mirror":
                            mirror.kill()
                            mirror.start()
                        case "target":
                            kafka.kill()
                            kafka.start()
                        case _:
                            source.brokers[1].kill()
                            source.brokers[1].start()
                writer.stop()
                ends = {each: end(there, TOPIC, each) for each in range(PARTITIONS)}
                wait_until(
                    lambda: all(
                        partition_of(mirror, f"dc1.{TOPIC}", each).get("copied") == ends[each]
                        for each in ends
                    ),
                    within=_WITHIN,
                    what="all is copied",
                    every=0.3,
                )
            for partition in range(PARTITIONS):
                wanted = committed(source.bootstrap, TOPIC, partition)
                assert committed(kafka.bootstrap, f"dc1.{TOPIC}", partition) == wanted
                assert len(wanted) > 100


class _Writer:
    """Writes until it is told to stop, whatever becomes of the brokers."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "compression.type": "lz4",
                "message.timeout.ms": 600_000,
            }
        )
        self._told = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "_Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._told.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._told.wait(0.01):
            for _ in range(10):
                number += 1
                self._producer.produce(TOPIC, b"message %d" % number, partition=number % PARTITIONS)
            self._producer.poll(0)
        assert self._producer.flush(_WITHIN) == 0


def _wait_progress(mirror: MirrorProcess, messages: int) -> None:
    def copied() -> int:
        return sum(
            max(0, partition_of(mirror, f"dc1.{TOPIC}", each).get("copied", 0))
            for each in range(PARTITIONS)
        )

    wait_until(lambda: copied() > 0, within=_WITHIN, what="it copies", every=0.2)
    before = copied()
    wait_until(lambda: copied() >= before + messages, within=_WITHIN, what="it goes on", every=0.2)
