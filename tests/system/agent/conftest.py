"""A site for each of the agent's system tests, on the run's servers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from tests.system.agent.shipped import Topic
from tests.system.agent.site import Site


@pytest.fixture
def site(
    running_broker: BrokerProcess, running_registry: RegistryProcess, tmp_path: Path
) -> Iterator[Site]:
    with Site(running_broker, running_registry.url, tmp_path) as site:
        yield site


@pytest.fixture
def topic(site: Site) -> Topic:
    """A topic with one partition, and the topic for its dead letters."""
    return site.topic(site.new_topic())
