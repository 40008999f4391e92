"""Batches through brokers that are killed, paused and cut off: each there once, in order.

Against Penstock's broker and against Apache Kafka; five batches of each of several partitions are
under way when it happens.
"""

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from client.admin.topics import create_topic
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.producing.delivery import TopicPartition
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.kafka.apache_kafka import ApacheKafka
from harness.penstock.broker import BrokerProcess
from tests.client.cutting_proxy import CuttingProxy
from tests.client.shipper import shipping

PARTITIONS = 4


@pytest.fixture(params=["running_broker", "running_kafka"])
def broker(request: pytest.FixtureRequest) -> BrokerProcess | ApacheKafka:
    found: BrokerProcess | ApacheKafka = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def brokers(broker: BrokerProcess | ApacheKafka) -> Iterator[Brokers]:
    with Brokers(Bootstrap.of(broker.bootstrap), patience_seconds=60) as connected:
        yield connected


@contextmanager
def running(thread: threading.Thread) -> Iterator[None]:
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_connections_cut_in_the_middle_of_anything(brokers: Brokers, new_topic: str) -> None:
    create_topic(brokers, new_topic, partitions=PARTITIONS)
    chance = random.Random(1)
    with (
        CuttingProxy(brokers.bootstrap.addresses[0], chance, most=150_000) as proxy,
        shipping(Bootstrap((proxy.address,)), brokers, new_topic) as shipper,
    ):
        while proxy.cuts < 12:
            shipper.submit(5, padding=chance.randrange(3_000))
            shipper.pump()
        proxy.cutting = False
        shipper.settle()
        assert shipper.most_open >= 5
        assert not shipper.unsettled


def test_a_broker_that_is_paused_for_longer_than_a_request_may_take(
    broker: BrokerProcess | ApacheKafka, brokers: Brokers, new_topic: str
) -> None:
    create_topic(brokers, new_topic, partitions=PARTITIONS)

    def pause() -> None:
        os.kill(broker.process.pid, signal.SIGSTOP)
        time.sleep(1.0)
        os.kill(broker.process.pid, signal.SIGCONT)

    with shipping(brokers.bootstrap, brokers, new_topic, request_seconds=0.3) as shipper:
        shipper.submit(20)
        shipper.settle()
        with running(threading.Thread(target=pause)):
            time.sleep(0.05)
            shipper.submit(200)
            shipper.settle()
        assert not shipper.unsettled


def test_only_partitions_whose_leader_is_away_wait(
    tmp_path: Path, zookeeper: EmbeddedZooKeeper, new_topic: str
) -> None:
    address = f"{zookeeper.address}/{tmp_path.name}"
    one, two = (
        BrokerProcess(tmp_path / str(number), zookeeper=address, broker_id=number)
        for number in (1, 2)
    )
    with one, two, Brokers(Bootstrap.of(one.bootstrap), patience_seconds=30) as brokers:
        create_topic(brokers, new_topic, partitions=PARTITIONS)
        leaders = brokers.leaders(new_topic, range(PARTITIONS))
        assert {leader: len(led) for leader, led in leaders.items()} == {1: 2, 2: 2}
        with shipping(brokers.bootstrap, brokers, new_topic) as shipper:
            shipper.submit(3)
            shipper.settle()
            two.kill()
            shipper.submit(20)
            away = {TopicPartition(new_topic, partition) for partition in leaders[2]}
            for _ in range(20):
                shipper.settle(besides=away)
                shipper.submit(1)
            assert set(shipper.troubles()) == away
            two.start()
            shipper.settle()
            assert shipper.troubles() == {}
            assert not shipper.unsettled
