"""One broker for the groups of a file of tests, and what looks at them behind its back."""

import uuid
from collections.abc import Iterator

import pytest

from cluster.session import Session
from cluster.zookeeper import EmbeddedZooKeeper
from harness.broker_process import BrokerProcess
from tests.system.groups.history import Source


@pytest.fixture(scope="module")
def map_address(zookeeper: EmbeddedZooKeeper) -> str:
    return f"{zookeeper.address}/groups-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def broker(map_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"groups": {"initial_rebalance_delay": 0.2}}
    directory = tmp_path_factory.mktemp("groups")
    with BrokerProcess(directory, zookeeper=map_address, settings=settings) as broker:
        yield broker


@pytest.fixture
def session(map_address: str, broker: BrokerProcess) -> Iterator[Session]:
    assert broker.ready()
    session = Session.connect(map_address, secret=None)
    yield session
    session.close()


@pytest.fixture
def source(broker: BrokerProcess, new_topic: str) -> Source:
    return Source(broker.bootstrap, new_topic, partitions=6)
