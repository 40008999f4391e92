"""The command line is run as a user runs it: as a process of its own."""

import pytest

from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from tests.penstock.at_registry import AtRegistry
from tests.penstock.running import At


@pytest.fixture
def at(running_broker: BrokerProcess) -> At:
    """Runs `penstock … --bootstrap` with the address of a broker."""
    return At(running_broker.bootstrap)


@pytest.fixture
def schemas(running_registry: RegistryProcess) -> AtRegistry:
    """Runs `penstock schemas … --registry` with the address of a registry."""
    return AtRegistry(running_registry.url)
