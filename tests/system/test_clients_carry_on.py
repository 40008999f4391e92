"""A broker is killed, another one stands still, a third one is stopped: foreign clients, with the
settings that they come with, write and read on, and no application hears of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.apache_kafka import NEWEST, kafka_classpath, why_no_kafka
from harness.broker_cluster import BrokerCluster
from harness.jvm import Jvm
from tests.system.carrying import (
    Clients,
    at_work,
    go_on,
    pairs,
    wait_until_led_by_others,
    wait_until_whole,
)
from tests.system.carrying_programs import pairs_of_programs
from tests.system.other_languages.programs import ClientUnavailable

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


@pytest.fixture
def clients(cluster: BrokerCluster, java: Jvm) -> Clients:
    try:
        return {**pairs(cluster.bootstrap, java), **pairs_of_programs(cluster.bootstrap)}
    except ClientUnavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_applications_hear_of_no_fault(cluster: BrokerCluster, clients: Clients) -> None:
    for topic in clients:
        replicas = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
        cluster.create_topic(topic, replicas=replicas, configs={})
    wait_until_whole(cluster, clients)
    with at_work(clients):
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
