"""What the system tests of the agent share: a site for each test, on the run's servers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.apache_kafka import ApacheKafka
from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from tests.system.agent.site import Site


@pytest.fixture
def site(
    running_broker: BrokerProcess, running_registry: RegistryProcess, tmp_path: Path
) -> Iterator[Site]:
    """On a Penstock broker."""
    with Site(running_broker, running_registry.url, tmp_path) as site:
        yield site


@pytest.fixture
def kafka_site(
    running_kafka: ApacheKafka, running_registry: RegistryProcess, tmp_path: Path
) -> Iterator[Site]:
    """On Apache Kafka. The registry's own topic is on the Penstock broker all the same."""
    with Site(running_kafka, running_registry.url, tmp_path) as site:
        yield site
