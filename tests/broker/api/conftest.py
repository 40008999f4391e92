"""A running broker for the tests of a module, with a real ZooKeeper behind it."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.configs.config import BrokerConfig
from cluster.records import acls
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.processes.waiting import wait_until
from tests.broker.api.requests import unused
from tests.broker.api.rules import Rules
from tests.broker.api.running_broker import RawClient, RunningBroker
from wire.acls import Acl, ResourcePattern


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
    """Not for longer: its threads would disturb hypothesis in other modules."""
    address = f"{zookeeper.address}/t{uuid.uuid4().hex[:12]}"
    place = {"id": 1, "data_dir": str(tmp_path_factory.mktemp("broker")), "zookeeper": address}
    config = BrokerConfig(**place, port=0, http_port=0, **broker_settings)  # type: ignore[arg-type]
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
        name = unused()
        (result,) = client.create(name, partitions, configs).topics
        assert not result.error_code, (result.error_code, result.error_message)
        return name

    return create


@pytest.fixture
def permit(running: RunningBroker) -> Iterator[Callable[[Rules], None]]:
    """From then on these rules are in force, and no others."""

    def replace(rules: Rules) -> None:
        session = running.broker.session
        wanted: dict[ResourcePattern, set[Acl]] = {}
        for pattern, acl in rules:
            wanted.setdefault(pattern, set()).add(acl)
        for pattern, standing in dict(running.broker.authorization.acls).items():
            acls.remove(session, pattern, set(standing) - wanted.get(pattern, set()))
        for pattern, added in wanted.items():
            acls.add(session, pattern, added)
        expected = {pattern: tuple(sorted(each)) for pattern, each in wanted.items()}
        wait_until(lambda: dict(running.broker.authorization.acls) == expected, every=0.005)

    yield replace
    replace([])
