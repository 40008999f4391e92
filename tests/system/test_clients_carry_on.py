"""A broker is killed, another one stands still, a third one is stopped: foreign clients, with the
settings that they come with, write and read on, and no application hears of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.apache_kafka import NEWEST, kafka_classpath, why_no_kafka
from harness.broker_cluster import BrokerCluster
from harness.jvm import Jvm
from harness.server_process import wait_until
from tests.system.carrying import PARTITIONS, Reader, Writer, pairs

SESSION_SECONDS = 8  # so long that nobody loses one where much else runs


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BrokerCluster]:
    settings = {"zookeeper_session_seconds": SESSION_SECONDS}
    with BrokerCluster(tmp_path, settings=settings) as cluster:
        yield cluster


@pytest.fixture
def java() -> Iterator[Jvm]:
    classpath = kafka_classpath(NEWEST)
    if classpath is None:
        pytest.skip(why_no_kafka(NEWEST))
    with Jvm(classpath) as java:
        yield java


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_applications_hear_of_no_fault(cluster: BrokerCluster, java: Jvm) -> None:
    clients = pairs(cluster.bootstrap, java)
    for topic in clients:
        replicas = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
        cluster.create_topic(topic, replicas=replicas, configs={})
    wait_until_whole(cluster, clients)
    workers = [worker for pair in clients.values() for worker in pair]
    for worker in workers:
        worker.start()
    try:
        go_on(clients)
        cluster.kill(1)
        wait_until_led_by_others(cluster, clients, 1)
        go_on(clients)
        cluster.spawn(1)
        wait_until_whole(cluster, clients)

        cluster.freeze(2)
        wait_until_led_by_others(cluster, clients, 2)
        go_on(clients)
        cluster.thaw(2)
        wait_until_whole(cluster, clients)

        assert cluster.stop(3) == 0
        go_on(clients)
        cluster.spawn(3)
        wait_until_whole(cluster, clients)
    finally:
        for worker in workers:
            if isinstance(worker, Writer):
                worker.ask_to_stop()
    try:
        for writer, reader in clients.values():
            writer.finish()
            reader.finish_with(writer.sent)
    finally:
        for worker in workers:
            worker.ask_to_stop()
    for topic, (writer, reader) in clients.items():
        wanted = [list(range(each, writer.sent, PARTITIONS)) for each in range(PARTITIONS)]
        assert reader.seen == wanted, topic


def wait_until_whole(cluster: BrokerCluster, topics: dict[str, tuple[Writer, Reader]]) -> None:
    wait_until(lambda: all(map(cluster.alive, cluster.ids)), within=60, what="all brokers run")
    for topic in topics:
        cluster.wait_in_sync(topic, PARTITIONS, within=120)


def wait_until_led_by_others(
    cluster: BrokerCluster, topics: dict[str, tuple[Writer, Reader]], broker: int
) -> None:
    others = set(cluster.ids) - {broker}
    wait_until(
        lambda: all(
            cluster.leader(topic, each) in others for topic in topics for each in range(PARTITIONS)
        ),
        within=60,
        what=f"others lead than broker {broker}",
        every=0.2,
    )


def go_on(clients: dict[str, tuple[Writer, Reader]]) -> None:
    """What is sent from now on is read by all."""
    wanted = {topic: writer.sent + PARTITIONS * 5 for topic, (writer, _) in clients.items()}

    def are_there() -> bool:
        for topic, (writer, reader) in clients.items():
            for worker in (writer, reader):
                if worker.failure is not None:
                    raise AssertionError(f"{worker.name}") from worker.failure
            if sum(map(len, reader.seen)) < wanted[topic]:
                return False
        return True

    wait_until(are_there, within=120, what="all clients write and read on")
