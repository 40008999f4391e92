"""Shipping is tested against Penstock's broker and against Apache Kafka, alike."""

import uuid
from collections.abc import Iterator

import pytest

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.kafka.apache_kafka import ApacheKafka
from harness.penstock.broker import BrokerProcess


@pytest.fixture(scope="session")
def running_broker(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[BrokerProcess]:
    """Not that of other tests: no registry knows the schemas of these ledger entries, and while
    such entries are recent, loads close no hours."""
    address = f"{zookeeper.address}/{uuid.uuid4().hex}"
    with BrokerProcess(tmp_path_factory.mktemp("broker"), zookeeper=address) as broker:
        yield broker


@pytest.fixture(params=["running_broker", "running_kafka"])
def broker(request: pytest.FixtureRequest) -> BrokerProcess | ApacheKafka:
    found: BrokerProcess | ApacheKafka = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def brokers(broker: BrokerProcess | ApacheKafka) -> Iterator[Brokers]:
    with Brokers(Bootstrap.of(broker.bootstrap), patience_seconds=60) as connected:
        yield connected
