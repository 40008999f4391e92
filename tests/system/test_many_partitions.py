"""More partitions than a broker may have files open: all are served, and nobody else is shut out.

With HYPOTHESIS_PROFILE=fuzz it is 10,000 partitions and 4,096 files.
"""

import contextlib
import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from tests.system.bystander import Bystander
from tests.system.faults import Faults
from tests.system.raw import (
    API_VERSIONS,
    FETCH,
    PRODUCE,
    Closed,
    RawConnection,
    fetch_body,
    produce_body,
    read_produced,
    record_batch,
    request,
)
from tests.system.topics import create

pytestmark = pytest.mark.long

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
PARTITIONS, FILES = (10_000, 4_096) if LONG else (300, 260)
SOME = 120  # still more than may have their files open
WITHIN = 240.0


@pytest.mark.fuzz
@pytest.mark.timeout(600)
def test_more_partitions_than_files(chroot: str, tmp_path: Path) -> None:
    settings = {"limits": {"partitions": PARTITIONS + 1}}
    with BrokerProcess(tmp_path, zookeeper=chroot, settings=settings, open_files=FILES) as broker:
        create(broker.bootstrap, "bystander")
        bystander = Bystander(broker.bootstrap, "bystander")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        made = admin.create_topics([NewTopic("many", PARTITIONS - 1, 1)], request_timeout=WITHIN)
        made["many"].result(WITHIN)
        admin.create_partitions([NewPartitions("many", PARTITIONS)])["many"].result(WITHIN)
        one_more = admin.create_partitions([NewPartitions("many", PARTITIONS + 1)])["many"]
        with pytest.raises(KafkaException, match=r"`limits.partitions`") as refused:
            one_more.result(WITHIN)
        assert refused.value.args[0].code() == KafkaError.INVALID_PARTITIONS
        open_files = [broker.process.open_files()]
        write_to_all(broker.bootstrap)
        open_files.append(broker.process.open_files())
        read_from_all(broker.bootstrap)
        open_files.append(broker.process.open_files())
        assert max(open_files) < FILES
        assert broker.http("/readyz") == (200, "ready\n")
        allowed = float(metric(broker, 'penstock_broker_allowed{of="log_files"}'))
        assert float(metric(broker, "penstock_broker_log_files")) <= allowed < FILES
        assert "low limit of open files" in broker.log()
        bystander.finish()
        broker.restart()
        read_from_all(broker.bootstrap)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.delete_topics(["many"], request_timeout=WITHIN)["many"].result(WITHIN)
        assert " ERROR " not in broker.log()


@pytest.fixture(scope="module")
def faults(faults_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Faults:
    return Faults(faults_library, tmp_path_factory.mktemp("faults"))


@pytest.fixture(scope="module")
def few_files(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory, faults: Faults
) -> Iterator[BrokerProcess]:
    """It has some partitions, more than it may have files open."""
    with BrokerProcess(
        tmp_path_factory.mktemp("few-files"),
        zookeeper=f"{zookeeper.address}/few-files",
        open_files=FILES,
        environment=faults.environment,
    ) as broker:
        create(broker.bootstrap, "bystander")
        create(broker.bootstrap, "many", partitions=SOME)
        yield broker


@pytest.mark.timeout(600)
def test_on_a_slow_disk_too_one_client_does_not_keep_the_files_from_others(
    few_files: BrokerProcess, faults: Faults
) -> None:
    """What is not flushed cannot let go of its files, and flushing takes its time."""
    bystander = Bystander(few_files.bootstrap, "bystander")
    faults.delay_syncs("/many-", 0.05)
    write_to_all(few_files.bootstrap, SOME)
    faults.no_more()
    served = bystander.finish()
    assert served.longest < 1 + served.disk_wait
    read_from_all(few_files.bootstrap, SOME)


def test_who_waits_for_more_does_not_keep_the_files_from_others(few_files: BrokerProcess) -> None:
    """Its fetches are looked at again when their time is over, after requests of others."""
    settings = {
        "bootstrap.servers": few_files.bootstrap,
        "group.id": "by-hand",
        "enable.auto.commit": False,
        "fetch.min.bytes": 1_000_000,
        "fetch.wait.max.ms": 50,
    }
    write_to_all(few_files.bootstrap, SOME)
    with contextlib.closing(Consumer(settings)) as waits:
        waits.assign([TopicPartition("many", each, 0) for each in range(SOME)])
        bystander = Bystander(few_files.bootstrap, "bystander")
        for _ in range(10):
            for message in waits.consume(1_000, 0.5):
                waits.seek(TopicPartition("many", message.partition() or 0, 0))
        bystander.finish()


def metric(broker: BrokerProcess, name: str) -> str:
    found = re.search(rf"^{re.escape(name)} (\S+)$", broker.http("/metrics")[1], re.MULTILINE)
    assert found is not None, name
    return found[1]


def write_to_all(bootstrap: str, partitions: int = PARTITIONS) -> None:
    refused: list[str] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(error.str())

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for partition in range(partitions):
        producer.produce("many", b"%d" % partition, partition=partition, on_delivery=delivered)
    assert producer.flush(WITHIN) == 0
    assert not refused, refused[0]


def read_from_all(bootstrap: str, partitions: int = PARTITIONS) -> None:
    missing = set(range(partitions))

    def all_are_read() -> bool:
        for message in consumer.consume(1_000, 1.0):
            assert message.error() is None, message.error()
            assert message.value() == b"%d" % message.partition()
            missing.discard(message.partition())
        return not missing

    settings = {"bootstrap.servers": bootstrap, "group.id": "by-hand", "enable.auto.commit": False}
    with contextlib.closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition("many", each, 0) for each in range(partitions)])
        wait_until(all_are_read, within=WITHIN, what="all partitions are read")


def test_who_does_not_read_does_not_keep_the_files_from_others(chroot: str, tmp_path: Path) -> None:
    """Answers that nobody takes hold their segments open, more than there may be."""
    settings = {"limits": {"send_buffer_bytes": 64 * 1024}}
    readers = 60
    with (
        BrokerProcess(tmp_path, zookeeper=chroot, settings=settings, open_files=256) as broker,
        contextlib.ExitStack() as stack,
    ):
        assert readers > float(metric(broker, 'penstock_broker_allowed{of="log_files"}'))
        create(broker.bootstrap, "bystander")
        create(broker.bootstrap, "large", partitions=readers)
        writer = stack.enter_context(RawConnection(broker.bootstrap))
        batch = record_batch([bytes(500_000)])
        for partition in range(readers):
            answer = writer.ask(PRODUCE, 7, produce_body("large", partition, batch))
            assert read_produced(answer).error == 0
        bystander = Bystander(broker.bootstrap, "bystander")
        for partition in range(readers):
            reader = stack.enter_context(RawConnection(broker.bootstrap))
            reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            body = fetch_body("large", partition, 0, max_bytes=1_000_000, wait_ms=1_000)
            reader.send(request(FETCH, 4, body))
            time.sleep(0.05)
        time.sleep(2)
        bystander.finish()
        assert "client does not read its responses, and their files are needed" in broker.log()
        assert broker.http("/readyz") == (200, "ready\n")


def test_a_broker_that_turns_clients_away_is_not_ready(chroot: str, tmp_path: Path) -> None:
    settings = {"limits": {"connections": 5}}
    with BrokerProcess(tmp_path, zookeeper=chroot, settings=settings) as broker:
        with contextlib.ExitStack() as stack:
            taken = [stack.enter_context(RawConnection(broker.bootstrap)) for _ in range(5)]
            assert taken[-1].ask(API_VERSIONS, 0, b"")
            assert broker.http("/readyz") == (200, "ready\n")
            one_more = stack.enter_context(RawConnection(broker.bootstrap))
            with pytest.raises((Closed, OSError)):
                one_more.ask(API_VERSIONS, 0, b"")
            assert broker.http("/readyz") == (503, "not ready: all 5 connections are in use\n")
        wait_until(broker.ready, within=30, what="it is ready again")
