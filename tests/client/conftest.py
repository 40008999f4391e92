"""The client is tested against Penstock's broker and against Apache Kafka, alike."""

from collections.abc import Iterator

import pytest

from client.addresses import parse_addresses
from client.brokers import Brokers
from tests.system.conftest import Server, server, shared_broker, shared_kafka, topic

__all__ = ["server", "shared_broker", "shared_kafka", "topic"]


@pytest.fixture
def brokers(server: Server) -> Iterator[Brokers]:
    with Brokers(parse_addresses(server.bootstrap), patience_seconds=15) as connected:
        yield connected
