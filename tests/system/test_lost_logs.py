"""What a broker had acknowledged is taken from it, by hand: it says exactly what, at once, under a
new leader epoch. What goes as it should is never said to be lost."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from client.addresses import parse_addresses
from client.brokers import Brokers
from client.delivery import TopicPartition
from client.epochs import end_offsets_of_epochs
from cluster.zookeeper import EmbeddedZooKeeper
from tests.broker_process import BrokerProcess
from tests.registry_process import RegistryProcess
from tests.server_process import wait_until
from tests.system.clients.stored import segments, stored_batches
from tests.system.produce import must_produce
from tests.system.told_of_topics import entries, id_of, read_all, said, wait_told
from tests.system.topics import create
from wire.records import records

TEN = [b"value %d" % number for number in range(10)]


@pytest.fixture
def broker(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> Iterator[BrokerProcess]:
    with ExitStack() as ends:
        broker = BrokerProcess(
            tmp_path / "broker",
            zookeeper=f"{zookeeper.address}/{tmp_path.name}-{os.getpid()}",
            settings={
                "registry": "${LOST_REGISTRY}",
                "ledger_interval": 0.2,
                "intervals": {"checkpoint": 0.3, "compaction": 0.2, "retention": 0.2},
            },
        )
        registry = RegistryProcess(tmp_path / "registry", brokers=broker.bootstrap)
        broker.process.environment["LOST_REGISTRY"] = registry.url
        ends.enter_context(broker)
        ends.enter_context(registry)
        yield broker


@pytest.fixture
def brokers(broker: BrokerProcess) -> Iterator[Brokers]:
    with Brokers(parse_addresses(broker.bootstrap)) as brokers:
        yield brokers


def withdrawn(brokers: Brokers, topic: str) -> list[tuple[int, int, int]]:
    """First, count and leader epoch of what is said of a topic, each statement once."""
    topic_id = id_of(brokers, topic)
    found = {
        (each["first"], each["count"], each["leader_epoch"])
        for entry in entries(brokers)
        for each in entry["withdrawn"]
        if (each["topic"], each["topic_id"], each["partition"]) == (topic, topic_id, 0)
    }
    return sorted(found)


def wait_withdrawn(brokers: Brokers, topic: str) -> list[tuple[int, int, int]]:
    wait_until(lambda: bool(withdrawn(brokers, topic)), within=30, what="it is said", every=0.1)
    return withdrawn(brokers, topic)


def leader_epoch(brokers: Brokers, topic: str) -> int:
    brokers.refresh([topic])
    return brokers.topic(topic).partitions[0].leader_epoch


def epoch_end(brokers: Brokers, topic: str, epoch: int) -> int:
    """Where a leader's epoch ended, as clients are told."""
    target = TopicPartition(topic, 0)
    return end_offsets_of_epochs(brokers, {target: epoch})[target]


def values(brokers: Brokers, topic: str) -> dict[int, bytes]:
    """All that is in the log, by offset."""
    return {
        record.offset: record.value or b""
        for batch in read_all(brokers, TopicPartition(topic, 0))
        for record in records(batch.data)
    }


def fill(broker: BrokerProcess, topic: str, batches: int) -> None:
    for _ in range(batches):
        must_produce(broker.bootstrap, topic, TEN)


def told_epochs(brokers: Brokers, topic: str) -> dict[int, int]:
    """Of each offset that brokers claim: the highest leader epoch under which they do. None is
    claimed twice under one epoch."""
    found: dict[int, set[int]] = {}
    for passage in said(brokers, topic, id_of(brokers, topic)).passages:
        for each in passage["offsets"]:
            for offset in range(each["first"], each["first"] + each["count"]):
                epochs = found.setdefault(offset, set())
                assert passage["leader_epoch"] not in epochs, offset
                epochs.add(passage["leader_epoch"])
    return {offset: max(epochs) for offset, epochs in found.items()}


@pytest.mark.parametrize("stop", ["killed", "stopped"])
def test_a_directory_that_is_removed_while_the_broker_is_down(
    broker: BrokerProcess, brokers: Brokers, new_topic: str, stop: str
) -> None:
    create(broker.bootstrap, new_topic)
    fill(broker, new_topic, 30)
    wait_told(brokers, new_topic)
    fill(broker, new_topic, 5)  # perhaps not counted yet, and known all the same
    _ = broker.kill() if stop == "killed" else broker.terminate()
    shutil.rmtree(broker.partition_dir(new_topic))
    broker.start()
    assert wait_withdrawn(brokers, new_topic) == [(0, 350, 1)]
    assert leader_epoch(brokers, new_topic) == 1
    assert epoch_end(brokers, new_topic, 0) == 350
    # No offset is given again.
    assert must_produce(broker.bootstrap, new_topic, TEN) == 350
    assert values(brokers, new_topic) == dict(enumerate(TEN, 350))
    wait_told(brokers, new_topic)
    told = told_epochs(brokers, new_topic)
    assert {told[offset] for offset in range(300)} == {0}
    assert {told[offset] for offset in range(350, 360)} == {1}
    status, page = broker.http("/readyz")
    assert status == 200
    assert f"lost: {new_topic}-0 has lost" in page
    assert "messages 0 to 349 are gone" in page
    metrics = broker.http("/metrics")[1]
    assert f'withdrawn_offsets{{partition="0",topic="{new_topic}"}} 350.0' in metrics
    # It is shown after a crash, and no more after a clean stop: the ledger has it.
    broker.restart()
    assert "are gone" in broker.http("/readyz")[1]
    broker.terminate()
    broker.start()
    assert broker.http("/readyz") == (200, "ready\n")
    assert withdrawn(brokers, new_topic) == [(0, 350, 1)]


@pytest.mark.parametrize("stop", ["killed", "stopped"])
@pytest.mark.parametrize("surplus", [0, 1, 65])
def test_a_file_that_is_cut_while_the_broker_is_down(
    broker: BrokerProcess, brokers: Brokers, new_topic: str, stop: str, surplus: int
) -> None:
    create(broker.bootstrap, new_topic)
    fill(broker, new_topic, 70)
    wait_told(brokers, new_topic)
    _ = broker.kill() if stop == "killed" else broker.terminate()
    left = list(stored_batches(broker.partition_dir(new_topic)))[50]
    os.truncate(left.file, left.position + surplus)
    broker.start()
    assert wait_withdrawn(brokers, new_topic) == [(500, 200, 1)]
    assert epoch_end(brokers, new_topic, 0) == 500
    fill(broker, new_topic, 30)
    wait_until(lambda: told_epochs(brokers, new_topic).get(799) == 1, within=30, what="all is told")
    told = told_epochs(brokers, new_topic)
    assert {told[offset] for offset in range(500)} == {0}
    assert {told[offset] for offset in range(500, 800)} == {1}
    broker.restart()
    assert withdrawn(brokers, new_topic) == [(500, 200, 1)]
    assert leader_epoch(brokers, new_topic) == 1


def test_a_directory_that_is_removed_while_the_broker_runs(
    broker: BrokerProcess, brokers: Brokers, new_topic: str
) -> None:
    create(broker.bootstrap, new_topic)
    create(broker.bootstrap, f"{new_topic}-other")
    fill(broker, new_topic, 20)
    wait_told(brokers, new_topic)
    shutil.rmtree(broker.partition_dir(new_topic))
    assert wait_withdrawn(brokers, new_topic) == [(0, 200, 1)]
    assert must_produce(broker.bootstrap, f"{new_topic}-other", TEN) == 0
    wait_until(lambda: leader_epoch(brokers, new_topic) == 1, within=20, what="it is known")
    assert must_produce(broker.bootstrap, new_topic, TEN) == 200
    assert values(brokers, new_topic) == dict(enumerate(TEN, 200))
    broker.restart()
    assert values(brokers, new_topic) == dict(enumerate(TEN, 200))
    assert withdrawn(brokers, new_topic) == [(0, 200, 1)]


def test_the_first_segments_are_removed(
    broker: BrokerProcess, brokers: Brokers, new_topic: str
) -> None:
    create(broker.bootstrap, new_topic, configs={"segment.bytes": "3000"})
    fill(broker, new_topic, 60)
    wait_told(brokers, new_topic)
    broker.kill()
    first, second, third, *_ = segments(broker.partition_dir(new_topic))
    for segment in (first, second):
        for suffix in (".log", ".index", ".timeindex"):
            segment.with_suffix(suffix).unlink()
    broker.start()
    assert wait_withdrawn(brokers, new_topic) == [(0, int(third.stem), 1)]
    assert must_produce(broker.bootstrap, new_topic, TEN) == 600
