"""The run's broker for groups, and a view of them in ZooKeeper."""

from collections.abc import Iterator

import pytest
import yaml

from cluster.session.session import Session
from harness.penstock.broker import BrokerProcess
from tests.system.groups.history import Source


@pytest.fixture(scope="session")
def broker(running_broker: BrokerProcess) -> BrokerProcess:
    return running_broker


@pytest.fixture(scope="session")
def map_address(broker: BrokerProcess) -> str:
    return str(yaml.safe_load(broker.config.read_text())["zookeeper"])


@pytest.fixture
def session(map_address: str, broker: BrokerProcess) -> Iterator[Session]:
    assert broker.ready()
    session = Session.connect(map_address, secret=None)
    yield session
    session.close()


@pytest.fixture
def source(broker: BrokerProcess, new_topic: str) -> Source:
    return Source(broker.bootstrap, new_topic, partitions=6)
