"""What tests of whole loads share: an application that writes, and a loader that is told of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from loader.config import LoaderConfig
from schemas.registry_client import RegistryClient
from tests.loader.application import Application
from tests.loader.loads import LONG_AGO


@pytest.fixture
def application(
    running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> Iterator[Application]:
    made = Application(running_broker.bootstrap, running_registry.url, new_topic, partitions=2)
    yield made
    made.close()


@pytest.fixture
def config(
    running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str, tmp_path: Path
) -> LoaderConfig:
    return LoaderConfig(
        root=f"file://{tmp_path}/root",
        topics=(new_topic,),
        brokers=(running_broker.bootstrap,),
        registry=running_registry.url,
        completeness=LONG_AGO,
    )


@pytest.fixture
def brokers(running_broker: BrokerProcess) -> Iterator[Brokers]:
    with Brokers(Bootstrap.of(running_broker.bootstrap)) as connected:
        yield connected


@pytest.fixture
def registry(running_registry: RegistryProcess) -> Iterator[RegistryClient]:
    with RegistryClient(running_registry.url) as client:
        yield client
