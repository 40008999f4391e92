"""What a broker had acknowledged is taken from it, by hand: it says exactly what, at once, under a
new leader epoch. What goes as it should is never said to be lost."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from client.admin.topics import alter_topic
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.producing.delivery import TopicPartition
from client.reading.epochs import end_offsets_of_epochs
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import REPOSITORY, BrokerProcess
from harness.processes.waiting import wait_until
from ledger.names import topic_id_text
from tests.broker.storage.log_files import flip
from tests.penstock.running import penstock
from tests.system.clients.librdkafka import LibrdkafkaAdmin
from tests.system.clients.stored import segments, stored_batches
from tests.system.counting_child import counted_broker, standing_still
from tests.system.produce import STORAGE_ERROR, must_produce, produce
from tests.system.told_of_topics import entries, id_of, read_all, said, wait_told
from tests.system.topics import create
from wire.mirrored import CUT, MirrorCut
from wire.record_batches.records import records

TEN = [b"value %d" % number for number in range(10)]


@contextmanager
def quick_broker(directory: Path, zookeeper: str, checkpoint: float) -> Iterator[BrokerProcess]:
    intervals = {"checkpoint": checkpoint, "compaction": 0.2, "retention": 0.2}
    checks = {"scrub_seconds": 0.5}
    with counted_broker(directory, zookeeper, intervals=intervals, checks=checks) as broker:
        yield broker


@pytest.fixture(scope="module")
def running(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    address = f"{zookeeper.address}/lost-{os.getpid()}"
    with quick_broker(tmp_path_factory.mktemp("lost"), address, 0.3) as broker:
        yield broker


@pytest.fixture
def shared(running: BrokerProcess, new_topic: str) -> Iterator[BrokerProcess]:
    """Afterwards it has no topic of the test's."""
    yield running
    admin = LibrdkafkaAdmin()
    for each in admin.topics(running.bootstrap):
        if each.startswith(new_topic):
            admin.delete_topic(running.bootstrap, each)


@pytest.fixture
def own(chroot: str, tmp_path: Path) -> Iterator[BrokerProcess]:
    """Whose directory may go whole."""
    with quick_broker(tmp_path, chroot, 0.3) as broker:
        yield broker


@pytest.fixture
def without_checkpoints(chroot: str, tmp_path: Path) -> Iterator[BrokerProcess]:
    with quick_broker(tmp_path, chroot, 3600.0) as broker:
        yield broker


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> BrokerProcess:
    """One that keeps a ledger: the one that tests share, or the test's own."""
    found: BrokerProcess = request.getfixturevalue(getattr(request, "param", "shared"))
    return found


on_its_own = pytest.mark.parametrize("broker", ["own"], indirect=True)


@pytest.fixture
def brokers(broker: BrokerProcess) -> Iterator[Brokers]:
    with Brokers(Bootstrap.of(broker.bootstrap)) as brokers:
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
    wait_until(lambda: bool(withdrawn(brokers, topic)), within=90, what="it is said", every=0.1)
    return withdrawn(brokers, topic)


def leader_epoch(brokers: Brokers, topic: str) -> int:
    """As the brokers say now, on whatever connection."""
    known = brokers.persist(lambda: brokers.refresh([topic]))
    return known.topics[topic].partitions[0].leader_epoch


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


def fill_with_keys(broker: BrokerProcess, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "batch.num.messages": 10})
    for number in range(count):
        producer.produce(topic, b"value %d" % number, b"key %d" % (number % 7))
    assert producer.flush(20) == 0


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


def test_a_directory_that_is_removed_while_the_broker_is_down(
    broker: BrokerProcess, brokers: Brokers, new_topic: str
) -> None:
    create(broker.bootstrap, new_topic)
    fill(broker, new_topic, 30)
    wait_told(brokers, new_topic)
    fill(broker, new_topic, 5)  # perhaps not counted yet, and known all the same
    broker.kill()
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
    assert "acknowledged messages 0 to 349" in page
    metrics = broker.http("/metrics")[1]
    assert f'withdrawn_offsets{{partition="0",topic="{new_topic}"}} 350.0' in metrics
    at = f"http://127.0.0.1:{broker.http_port}"
    ended = penstock("status", "-b", broker.bootstrap, "--broker-http", at)
    assert ended.returncode == 1
    assert f"! broker at {at}: lost: {new_topic}-0 has lost acknowledged" in ended.stdout
    # It is shown after a crash, and no more after a clean stop: the ledger has it.
    broker.restart()
    assert "has lost acknowledged messages" in broker.http("/readyz")[1]
    broker.terminate()
    broker.start()
    assert broker.http("/readyz") == (200, "ready\n")
    assert withdrawn(brokers, new_topic) == [(0, 350, 1)]


def test_an_end_that_is_cut_on_an_operators_word(
    broker: BrokerProcess, brokers: Brokers, new_topic: str
) -> None:
    """While the broker runs: it leads on, in another epoch, and counts on from there."""
    create(broker.bootstrap, new_topic)
    fill(broker, new_topic, 70)
    wait_told(brokers, new_topic)
    cut = MirrorCut(topic_id_text(brokers.topic(new_topic).id), 0, 500, 700, 0)
    alter_topic(brokers, new_topic, {CUT: str(cut)})
    assert wait_withdrawn(brokers, new_topic) == [(500, 200, 1)]
    wait_until(lambda: leader_epoch(brokers, new_topic) == 1, within=60, what="it is known")
    wait_until(lambda: epoch_end(brokers, new_topic, 0) == 500, within=60, what="it is cut")
    fill(broker, new_topic, 30)
    wait_until(lambda: told_epochs(brokers, new_topic).get(799) == 1, within=90, what="all is told")
    told = told_epochs(brokers, new_topic)
    assert {told[offset] for offset in range(500)} == {0}
    assert {told[offset] for offset in range(500, 800)} == {1}
    before = values(brokers, new_topic)
    broker.restart()
    assert withdrawn(brokers, new_topic) == [(500, 200, 1)]
    assert leader_epoch(brokers, new_topic) == 1
    assert values(brokers, new_topic) == before


def test_a_directory_that_is_removed_while_the_broker_runs(
    broker: BrokerProcess, brokers: Brokers, new_topic: str
) -> None:
    create(broker.bootstrap, new_topic)
    create(broker.bootstrap, f"{new_topic}-other")
    fill(broker, new_topic, 20)
    wait_told(brokers, new_topic)
    # At once: as soon as the broker misses a file of it, it clears away the rest.
    gone = broker.partition_dir(new_topic).rename(broker.data_dir.with_name("gone"))
    shutil.rmtree(gone)
    assert wait_withdrawn(brokers, new_topic) == [(0, 200, 1)]
    assert must_produce(broker.bootstrap, f"{new_topic}-other", TEN) == 0
    wait_until(lambda: leader_epoch(brokers, new_topic) == 1, within=60, what="it is known")
    assert must_produce(broker.bootstrap, new_topic, TEN) == 200
    assert values(brokers, new_topic) == dict(enumerate(TEN, 200))
    broker.restart()
    assert values(brokers, new_topic) == dict(enumerate(TEN, 200))
    assert withdrawn(brokers, new_topic) == [(0, 200, 1)]


def damaged(brokers: Brokers, topic: str) -> list[tuple[int, int]]:
    """First and count of what is said to be damaged, each once."""
    topic_id = id_of(brokers, topic)
    return sorted(
        {
            (each["offsets"]["first"], each["offsets"]["count"])
            for entry in entries(brokers)
            for each in entry["damaged"]
            if (each["topic"], each["topic_id"], each["partition"]) == (topic, topic_id, 0)
        }
    )


BODY = 80  # a byte of a batch that its CRC covers


def test_a_byte_that_flips_before_it_is_counted(
    broker: BrokerProcess, brokers: Brokers, new_topic: str
) -> None:
    create(broker.bootstrap, new_topic)
    fill(broker, new_topic, 3)
    wait_told(brokers, new_topic)
    with standing_still(broker):
        fill(broker, new_topic, 5)
        (file,) = segments(broker.partition_dir(new_topic))
        flip(file, list(stored_batches(broker.partition_dir(new_topic)))[5].position + BODY)
    fill(broker, new_topic, 1)
    wait_told(brokers, new_topic)
    assert damaged(brokers, new_topic) == [(50, 10)]
    assert set(told_epochs(brokers, new_topic)) == {*range(50), *range(60, 90)}
    wait_until(
        lambda: f"damaged: {new_topic}-0, messages 50 to 59" in broker.http("/readyz")[1],
        within=60,
        what="it is shown",
    )
    label = f'{{partition="0",topic="{new_topic}"}}'
    assert f"damaged_batches_total{label} 1.0" in broker.http("/metrics")[1]
    assert withdrawn(brokers, new_topic) == []


@pytest.mark.parametrize("broker", ["without_checkpoints"], indirect=True)
def test_the_last_batch_flips_while_the_broker_is_down(
    broker: BrokerProcess, brokers: Brokers, new_topic: str
) -> None:
    """It is no torn tail: it had been acknowledged. Nothing is cut off but on an operator's word,
    and then that is said."""
    create(broker.bootstrap, new_topic)
    fill(broker, new_topic, 20)
    wait_told(brokers, new_topic)
    broker.kill()
    last = list(stored_batches(broker.partition_dir(new_topic)))[-1]
    flip(last.file, last.position + BODY)
    broker.start()
    assert produce(broker.bootstrap, new_topic, TEN).error == STORAGE_ERROR
    assert f"offline: {new_topic}-0" in broker.http("/readyz")[1]
    broker.terminate()
    command = ["topics", "repair", new_topic, "0", "--config", str(broker.config), "--give-up"]
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *command],
        cwd=REPOSITORY,
        env={**os.environ, **broker.process.environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    broker.start()
    assert wait_withdrawn(brokers, new_topic) == [(190, 10, 1)]
    assert must_produce(broker.bootstrap, new_topic, TEN) == 190


def test_what_goes_as_it_should_is_not_lost(
    broker: BrokerProcess, brokers: Brokers, new_topic: str
) -> None:
    """Retention, deleted records, a topic made anew, compaction: with kills in between."""
    kept, compacted = f"{new_topic}-kept", f"{new_topic}-compacted"
    create(broker.bootstrap, new_topic, configs={"segment.bytes": "3000"})
    create(broker.bootstrap, kept, configs={"segment.bytes": "3000", "retention.bytes": "1000"})
    compaction = {"cleanup.policy": "compact", "segment.bytes": "3000"}
    create(broker.bootstrap, compacted, configs=compaction)
    for number in range(3):
        for topic in (new_topic, kept):
            fill(broker, topic, 30)
        fill_with_keys(broker, compacted, 300)
        LibrdkafkaAdmin().delete_records(broker.bootstrap, new_topic, 0, 250 * (number + 1))
        wait_until(
            lambda: int(segments(broker.partition_dir(kept))[0].stem) > 0,
            within=60,
            what="old segments are removed",
        )
        broker.restart()
    ids = id_of(brokers, new_topic)
    LibrdkafkaAdmin().delete_topic(broker.bootstrap, new_topic)
    create(broker.bootstrap, new_topic)
    brokers.refresh([new_topic])
    assert id_of(brokers, new_topic) != ids
    fill(broker, new_topic, 1)
    broker.restart()
    wait_told(brokers, new_topic)
    broker.terminate()
    broker.start()
    mark = broker.partition_dir(compacted) / "compacted"
    wait_until(mark.exists, within=60, what="it is compacted")
    for topic in (new_topic, kept, compacted):
        wait_told(brokers, topic)
        assert leader_epoch(brokers, topic) == 0
        assert (withdrawn(brokers, topic), damaged(brokers, topic)) == ([], [])
    assert broker.http("/readyz") == (200, "ready\n")
    lost = [line for line in broker.log().splitlines() if "has lost" in line and new_topic in line]
    assert lost == []


@on_its_own
def test_the_whole_data_directory_is_another(
    broker: BrokerProcess, brokers: Brokers, new_topic: str
) -> None:
    """As where its disk is not mounted. The ledger and the registry's schemas were in it, too."""
    create(broker.bootstrap, new_topic)
    fill(broker, new_topic, 5)
    wait_told(brokers, new_topic)
    broker.terminate()
    broker.data_dir.rename(broker.data_dir.with_name("away"))
    broker.start()
    assert f"{new_topic}-0 has lost" in broker.http("/readyz")[1]
    assert "their number is unknown" in broker.http("/readyz")[1]
    assert leader_epoch(brokers, new_topic) == 1
    assert must_produce(broker.bootstrap, new_topic, TEN) == 0
    assert epoch_end(brokers, new_topic, 0) == 0
    # What is new from now on has lost nothing.
    create(broker.bootstrap, f"{new_topic}-new")
    assert leader_epoch(brokers, f"{new_topic}-new") == 0


@on_its_own
def test_the_whole_data_directory_is_removed_while_the_broker_runs(
    broker: BrokerProcess, brokers: Brokers, new_topic: str
) -> None:
    """It writes nothing into what has no name any more."""
    create(broker.bootstrap, new_topic)
    broker.data_dir.rename(broker.data_dir.with_name("away"))
    assert broker.process.wait(within=60) == 1
    assert "was removed or replaced while the broker ran" in broker.log()
    broker.data_dir.with_name("away").rename(broker.data_dir)
    broker.start()
    assert must_produce(broker.bootstrap, new_topic, TEN) == 0
    assert withdrawn(brokers, new_topic) == []
