"""Where a whole pipeline of a test listens."""

import pytest

from ground import listening
from harness.server_process import free_ports
from penstock.directory.places import MirrorPorts, Ports


@pytest.fixture
def base() -> int:
    """The first of so many free ports in a row."""
    while True:
        (first,) = free_ports(1)
        every = [*Ports.beginning_at(first), *MirrorPorts.beginning_at(first)]
        if all(listening.is_free("127.0.0.1", port) for port in every):
            return first
