"""A running broker for the tests of a module, with a real ZooKeeper behind it."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.config import BrokerConfig
from cluster.zookeeper import EmbeddedZooKeeper
from tests.broker.api.running_broker import RawClient, RunningBroker


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, Any]:
    """Overridden by modules that want a broker set up differently."""
    return {}


@pytest.fixture(scope="module")
def running(
    zookeeper: EmbeddedZooKeeper,
    tmp_path_factory: pytest.TempPathFactory,
    broker_settings: dict[str, Any],
) -> Iterator[RunningBroker]:
    directory: Path = tmp_path_factory.mktemp("broker")
    address = f"{zookeeper.address}/t{uuid.uuid4().hex[:12]}"
    config = BrokerConfig(
        **{
            "id": 1,
            "data_dir": str(directory),
            "zookeeper": address,
            "port": 0,
            "http_port": 0,
            **broker_settings,
        }
    )
    with RunningBroker(config, address) as broker:
        yield broker


@pytest.fixture
def client(running: RunningBroker) -> Iterator[RawClient]:
    with running.client() as connected:
        yield connected


@pytest.fixture
def new_topic(client: RawClient) -> Callable[..., str]:
    """Creates a topic of a name that no other test has used."""

    def create(partitions: int = 1, configs: dict[str, str] | None = None) -> str:
        name = f"t{uuid.uuid4().hex[:10]}"
        (result,) = client.create(name, partitions, configs).topics
        assert not result.error_code, (result.error_code, result.error_message)
        return name

    return create
