"""What is in a broker's logs is told to the ledger exactly once: whoever wrote it, whatever becomes
of the log, and whoever is killed."""

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.producing.batch_producer import BatchProducer
from client.producing.delivery import Batch, TopicPartition
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from harness.penstock.made_batches import NOON, WINDOW, agents_batch, foreign_batch
from harness.processes.waiting import wait_until
from tests.ledger.chains import key_in, walk_audit
from tests.system.counting_child import child_of, counted_broker, standing_still
from tests.system.crash import IdempotentWriter
from tests.system.told_of_topics import check_told_once, entries, read_all, wait_told
from tests.system.topics import create
from wire.record_batches.records import Codec

KILLS = int(os.environ.get("PENSTOCK_CRASH_KILLS", "4"))


@pytest.fixture(scope="module")
def broker(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    intervals = {"compaction": 0.2, "retention": 0.2}
    address = f"{zookeeper.address}/counted-{os.getpid()}"
    directory = tmp_path_factory.mktemp("counted")
    with counted_broker(directory, address, intervals=intervals) as broker:
        yield broker


@pytest.fixture
def brokers(broker: BrokerProcess) -> Iterator[Brokers]:
    with Brokers(Bootstrap.of(broker.bootstrap)) as brokers:
        yield brokers


def send(brokers: Brokers, topic: str, batches: list[bytes]) -> None:
    with BatchProducer(brokers.bootstrap) as producer:
        for each in batches:
            assert producer.submit(Batch(TopicPartition(topic, 0), each))
        while producer.outstanding:
            producer.pump(1)
            producer.collect()


def produce(
    broker: BrokerProcess, topic: str, codec: str, count: int, chance: random.Random
) -> None:
    """By librdkafka, with times in any order."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "compression.type": codec, "linger.ms": 5}
    )
    for number in range(count):
        at = NOON + chance.randrange(-3 * WINDOW, 3 * WINDOW)
        producer.produce(topic, b"value-%d" % number * 5, b"k%d" % (number % 9), timestamp=at)
    assert producer.flush(20) == 0


def test_agents_and_others_with_every_codec(
    broker: BrokerProcess, brokers: Brokers, new_topic: str
) -> None:
    create(broker.bootstrap, new_topic)
    chance = random.Random(7)
    for codec in Codec:
        produce(broker, new_topic, codec.name.lower(), 200, chance)
        one_window = [NOON + chance.randrange(WINDOW) for _ in range(30)]
        several = [NOON + chance.randrange(5 * WINDOW) for _ in range(30)]
        send(brokers, new_topic, [agents_batch(one_window, codec=codec)] * 3)
        send(brokers, new_topic, [agents_batch(several, codec=codec)])
        send(brokers, new_topic, [foreign_batch(several, codec=codec)])
    found = wait_told(brokers, new_topic)
    batches = read_all(brokers, TopicPartition(new_topic, 0))
    assert {each.header.codec for each in batches} == set(Codec)
    check_told_once(found, batches)
    assert sum(sum(each["delays"]) for each in found.passages) <= sum(found.sums.events.values())


def test_a_compacted_topic(broker: BrokerProcess, brokers: Brokers, new_topic: str) -> None:
    configs = {
        "cleanup.policy": "compact",
        "segment.bytes": "5000",
        "min.cleanable.dirty.ratio": "0.01",
    }
    create(broker.bootstrap, new_topic, configs=configs)

    def left() -> int:
        batches = read_all(brokers, TopicPartition(new_topic, 0))
        return sum(each.header.record_count for each in batches)

    with standing_still(broker):
        for _ in range(20):
            produce(broker, new_topic, "lz4", 100, random.Random(3))
        # A round of compaction that came early found nothing to remove.
        wait_until(lambda: left() < 2_000, within=20, what="the topic was compacted")
    found = wait_told(brokers, new_topic)
    assert set(found.offsets) == set(range(2_000))
    assert set(found.offsets.values()) == {1}
    assert found.no_events > 0
    assert found.no_events + sum(found.sums.events.values()) == 2_000


def test_child_and_broker_are_killed_at_random(
    broker: BrokerProcess, brokers: Brokers, new_topic: str
) -> None:
    seed = os.environ.get("PENSTOCK_CRASH_SEED") or str(random.SystemRandom().getrandbits(32))
    print(f"PENSTOCK_CRASH_SEED={seed}")
    chance = random.Random(seed)
    partitions = range(3)
    create(broker.bootstrap, new_topic, partitions=3, configs={"segment.bytes": "200000"})
    writer = IdempotentWriter("w", broker.bootstrap, new_topic, partitions)
    writer.start()
    try:
        for kill in range(KILLS):
            time.sleep(chance.uniform(0.1, 0.6))
            if kill % 2 == 0:
                broker.restart()
            elif child := child_of(broker):
                os.kill(child, signal.SIGKILL)
    finally:
        writer.finish()
    for partition in partitions:
        found = wait_told(brokers, new_topic, partition)
        batches = read_all(brokers, TopicPartition(new_topic, partition))
        check_told_once(found, batches)
        assert len(found.offsets) == writer.sent[partition]
        assert {passage["leader_epoch"] for passage in found.passages} == {0}
    assert [each for each in entries(brokers) if each["withdrawn"] or each["damaged"]] == []
    assert broker.http("/readyz") == (200, "ready\n")
    ((name, walked),) = walk_audit(brokers).items()
    assert name.startswith("broker-")
    assert walked.numbers == list(range(len(walked.values)))
    assert walked.proofs.keys() == walked.values.keys(), "every entry has a proof"
    assert walked.breaks == []
    assert walked.keys == [key_in(broker.data_dir)]


def test_what_keeps_the_ledger_waiting_is_said_and_nothing_else_waits(
    chroot: str, tmp_path: Path, new_topic: str
) -> None:
    settings = {"registry": "http://127.0.0.1:1", "ledger_interval": 0.1}
    with BrokerProcess(tmp_path / "broker", zookeeper=chroot, settings=settings) as broker:
        produce(broker, new_topic, "none", 10, random.Random(1))
        wait_until(lambda: "counting paused reason=" in broker.log(), within=20, what="it is said")
        produce(broker, new_topic, "none", 10, random.Random(1))
        assert broker.log().count("ledger counting paused") == 1
        child = child_of(broker)
        assert broker.terminate() == 0
        assert not Path(f"/proc/{child}").exists()
