"""The command line is run as a user runs it: as a process of its own."""

import pytest

from tests.broker_process import BrokerProcess
from tests.penstock.running import At


@pytest.fixture
def at(running_broker: BrokerProcess) -> At:
    """Runs `penstock … --bootstrap` with the address of a broker."""
    return At(running_broker.bootstrap)
