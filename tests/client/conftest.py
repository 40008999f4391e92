"""Runs the client's tests against both Penstock's broker and Apache Kafka."""

from collections.abc import Iterator

import pytest

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers


@pytest.fixture(params=["running_broker", "running_kafka"])
def brokers(request: pytest.FixtureRequest) -> Iterator[Brokers]:
    bootstrap = request.getfixturevalue(request.param).bootstrap
    with Brokers(Bootstrap.of(bootstrap), patience_seconds=60) as connected:
        yield connected
