"""Runs the registry's tests on both Penstock's broker and Apache Kafka."""

from collections.abc import Iterator

import pytest

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers

both = pytest.mark.parametrize("bootstrap", ["running_broker", "running_kafka"], indirect=True)


@pytest.fixture
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The broker's address: Penstock's, or with `both` each in turn."""
    found: str = request.getfixturevalue(getattr(request, "param", "running_broker")).bootstrap
    return found


@pytest.fixture
def brokers(bootstrap: str) -> Iterator[Brokers]:
    with Brokers(Bootstrap.of(bootstrap), patience_seconds=15) as connected:
        yield connected
