"""A cluster counted as a client: Penstock's own brokers, and Apache Kafka's."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer

from audit.configuration.config import AuditConfig, Cluster, CountingConfig
from audit.process.counter import CANNOT_START, ClusterCounter, run_counter
from audit.process.data_directory import held
from client.admin.topics import create_topic
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.producing.delivery import TopicPartition
from client.reading.offsets import End, start_offsets
from harness.kafka.apache_kafka import ApacheKafka
from harness.penstock.broker import REPOSITORY, BrokerProcess
from harness.penstock.made_batches import NOON, WINDOW
from harness.penstock.registry import RegistryProcess
from harness.processes.server_process import ServerProcess
from ledger.counting.counter import Counter
from ledger.counting.entries import Speaker
from ledger.counting.journal import CountingJournal, CountPosition, PartitionKey
from ledger.counting.publishing import LedgerWriter
from tests.ledger.counting.encoding import COUNTERS_KEY
from tests.system.told_of_topics import (
    Said,
    check_told_once,
    entries,
    id_of,
    read_all,
    said,
    wait_told,
)

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CounterOf = Callable[[str, str, str], ClusterCounter]
Counting = Callable[[str], ClusterCounter]


@pytest.fixture
def counter_of(tmp_path: Path) -> Iterator[CounterOf]:
    """A counter of some topics of a cluster, as it is after a start."""
    with ExitStack() as ends:

        def made(bootstrap: str, registry: str, topics: str) -> ClusterCounter:
            cluster = Cluster(brokers=(bootstrap,), registry=registry)
            journal = CountingJournal(tmp_path / "c.counter", "counter", COUNTERS_KEY)
            speaker = Speaker(journal.source, "h", "penstock-count", "test", WINDOW)
            writer = LedgerWriter(cluster.bootstrap, cluster.registry, client_id="test")
            ends.callback(writer.close)
            return ClusterCounter(
                cluster, CountingConfig(topics=(topics,)), Counter(journal, speaker, writer)
            )

        yield made


def looked(counter: ClusterCounter, brokers: Brokers, topic: str) -> Said:
    counter.poll()
    assert counter.trouble == ""
    return said(brokers, topic, id_of(brokers, topic))


def produce(bootstrap: str, topic: str, count: int, codec: str = "none") -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec})
    for number in range(count):
        at = NOON + (number * 7919) % (4 * WINDOW)
        producer.produce(topic, b"value-%d" % number, b"key", timestamp=at)
    assert producer.flush(20) == 0


def end_offset(brokers: Brokers, topic: str) -> int:
    return start_offsets(brokers, topic, [0], End())[0]


@pytest.fixture
def counting(
    running_broker: BrokerProcess, running_registry: RegistryProcess, counter_of: CounterOf
) -> Counting:
    return lambda topics: counter_of(running_broker.bootstrap, running_registry.url, topics)


def test_each_look_counts_what_is_new(
    running_broker: BrokerProcess, counting: Counting, new_topic: str
) -> None:
    with Brokers(Bootstrap.of(running_broker.bootstrap)) as brokers:
        create_topic(brokers, new_topic, partitions=1)
        counter = counting(new_topic)
        for codec in CODECS:
            produce(running_broker.bootstrap, new_topic, 100, codec)
            found = looked(counter, brokers, new_topic)
            check_told_once(found, read_all(brokers, TopicPartition(new_topic, 0)))
            if codec in ("gzip", "lz4"):
                counter = counting(new_topic)
        again = looked(counter, brokers, new_topic)
        assert again.offsets == found.offsets
        # Of what came between two looks it is known how late it was.
        assert [bool(each["delays"]) for each in found.passages] == [False, True] * 2 + [False]


def test_a_spoilt_batch_is_named_and_passed_over(
    running_broker: BrokerProcess, counting: Counting, new_topic: str
) -> None:
    with Brokers(Bootstrap.of(running_broker.bootstrap)) as brokers:
        create_topic(brokers, new_topic, partitions=1)
        for _ in range(3):
            produce(running_broker.bootstrap, new_topic, 10)
        batches = read_all(brokers, TopicPartition(new_topic, 0))
        (segment,) = running_broker.partition_dir(new_topic).glob("*.log")
        spoilt = batches[1].header
        with segment.open("r+b") as file:
            file.seek(batches[0].header.size + spoilt.size - 1)
            file.write(b"\xaa")
        found = looked(counting(new_topic), brokers, new_topic)
        check_told_once(found, [batches[0], *batches[2:]])
        damaged = [
            each
            for entry in entries(brokers)
            for each in entry["damaged"]
            if each["topic"] == new_topic
        ]
        (named,) = damaged
        assert named["offsets"] == {
            "first": spoilt.base_offset, "count": spoilt.last_offset_delta + 1
        }  # fmt: skip
        assert "CRC" in named["reason"]


def test_a_log_that_was_cut_is_counted_on_at_its_end(
    running_broker: BrokerProcess, counting: Counting, tmp_path: Path, new_topic: str
) -> None:
    with Brokers(Bootstrap.of(running_broker.bootstrap)) as brokers:
        create_topic(brokers, new_topic, partitions=1)
        produce(running_broker.bootstrap, new_topic, 10)
        epoch = brokers.topic(new_topic).partitions[0].leader_epoch
        # A counter that has counted more than there is now, of the same leader.
        journal = CountingJournal(tmp_path / "c.counter", "counter", COUNTERS_KEY)
        key = PartitionKey(new_topic, id_of(brokers, new_topic), 0)
        journal.write([], {key: CountPosition(50, leader_epoch=epoch)})
        counter = counting(new_topic)
        assert not looked(counter, brokers, new_topic).offsets
        produce(running_broker.bootstrap, new_topic, 10)
        found = looked(counter, brokers, new_topic)
        assert set(found.offsets) == set(range(10, 20))
        # What it says takes the place of what it said before, so it is of a higher epoch.
        produce(running_broker.bootstrap, new_topic, 5)
        found = looked(counting(new_topic), brokers, new_topic)
        assert set(found.offsets) == set(range(10, end_offset(brokers, new_topic)))
        assert [each["leader_epoch"] for each in found.passages] == [epoch + 1] * 2


def test_only_topics_that_are_meant(
    running_broker: BrokerProcess, counting: Counting, new_topic: str
) -> None:
    with Brokers(Bootstrap.of(running_broker.bootstrap)) as brokers:
        for name in (f"{new_topic}-in", f"other-{new_topic}", f"_{new_topic}"):
            create_topic(brokers, name, partitions=1)
            produce(running_broker.bootstrap, name, 1)
        counting(f"{new_topic}-*").poll()
        counting(f"_{new_topic}").poll()
        about = {each["topic"] for entry in entries(brokers) for each in entry["passages"]}
    assert {each for each in about if new_topic in each} == {f"{new_topic}-in"}


def test_what_goes_wrong_is_said_and_the_next_look_goes_on(
    running_broker: BrokerProcess, counting: Counting, counter_of: CounterOf, new_topic: str
) -> None:
    with Brokers(Bootstrap.of(running_broker.bootstrap)) as brokers:
        create_topic(brokers, new_topic, partitions=1)
        produce(running_broker.bootstrap, new_topic, 5)
        counter = counter_of(running_broker.bootstrap, "http://127.0.0.1:1", new_topic)
        counter.poll()
        assert "Registry" in counter.trouble
        counter = counting(new_topic)
        found = looked(counter, brokers, new_topic)
        check_told_once(found, read_all(brokers, TopicPartition(new_topic, 0)))


def test_apache_kafka_with_transactions(
    running_kafka: ApacheKafka,
    running_registry: RegistryProcess,
    counter_of: CounterOf,
    new_topic: str,
) -> None:
    """What was aborted is no event, nor are the markers; all offsets are spoken of."""
    with Brokers(Bootstrap.of(running_kafka.bootstrap)) as brokers:
        create_topic(brokers, new_topic, partitions=1)
        producer = Producer(
            {"bootstrap.servers": running_kafka.bootstrap, "transactional.id": new_topic}
        )
        producer.init_transactions(30)
        for committed in (True, False, True):
            producer.begin_transaction()
            for number in range(10):
                producer.produce(new_topic, b"%d" % number, timestamp=NOON + number)
            producer.flush(20)
            if committed:
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)
        produce(running_kafka.bootstrap, new_topic, 7)
        counter = counter_of(running_kafka.bootstrap, running_registry.url, new_topic)
        found = looked(counter, brokers, new_topic)
        assert set(found.offsets) == set(range(40))
        assert set(found.offsets.values()) == {1}
        assert sum(found.sums.events.values()) == 27
        assert found.no_events == 13
        assert found.passages[0]["leader_epoch"] >= 0


def test_the_program(
    running_broker: BrokerProcess, running_registry: RegistryProcess, tmp_path: Path, new_topic: str
) -> None:
    config = tmp_path / "audit.yaml"
    wanted = {
        "data_dir": str(tmp_path / "data"),
        "clusters": {
            "../a/b": {"brokers": [running_broker.bootstrap], "registry": running_registry.url}
        },
        "count": {"topics": [new_topic], "interval": 0.1},
    }
    config.write_text(yaml.safe_dump(wanted))
    command = [sys.executable, "-m", "penstock", "audit", "--config", str(config), "--count"]
    with Brokers(Bootstrap.of(running_broker.bootstrap)) as brokers:
        create_topic(brokers, new_topic, partitions=1)
        with ServerProcess(command, output=tmp_path / "log", directory=REPOSITORY) as program:
            program.spawn()
            produce(running_broker.bootstrap, new_topic, 20)
            found = wait_told(brokers, new_topic)
            assert program.terminate() == 0
        check_told_once(found, read_all(brokers, TopicPartition(new_topic, 0)))
    assert [each.name for each in (tmp_path / "data").rglob("*.counter")] == ["..%2Fa%2Fb.counter"]


@pytest.fixture
def own_signals() -> Iterator[None]:
    """What a program does to signals is undone."""
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("own_signals")
def test_a_second_one_does_not_begin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with held(tmp_path / "counters"):
        assert run_counter(AuditConfig(data_dir=str(tmp_path))) == CANNOT_START
    assert "in use" in capsys.readouterr().err
