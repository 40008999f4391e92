"""Two clusters of one broker each: what is copied, and where to."""

import uuid
from collections.abc import Iterator

import pytest

from client.bootstrap import Bootstrap
from client.brokers import Brokers
from cluster.zookeeper import EmbeddedZooKeeper
from harness.broker_process import BrokerProcess


@pytest.fixture(scope="module")
def source(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[BrokerProcess]:
    address = f"{zookeeper.address}/{uuid.uuid4().hex}"
    directory = tmp_path_factory.mktemp("source")
    with BrokerProcess(directory, zookeeper=address, settings={"ledger": False}) as broker:
        yield broker


@pytest.fixture(scope="module")
def target(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[BrokerProcess]:
    address = f"{zookeeper.address}/{uuid.uuid4().hex}"
    directory = tmp_path_factory.mktemp("target")
    with BrokerProcess(directory, zookeeper=address, settings={"ledger": False}) as broker:
        yield broker


@pytest.fixture
def there(source: BrokerProcess) -> Iterator[Brokers]:
    """The source, by a client."""
    with Brokers(Bootstrap.of(source.bootstrap), patience_seconds=60) as brokers:
        yield brokers


@pytest.fixture
def here(target: BrokerProcess) -> Iterator[Brokers]:
    """The target, by a client."""
    with Brokers(Bootstrap.of(target.bootstrap), patience_seconds=60) as brokers:
        yield brokers
