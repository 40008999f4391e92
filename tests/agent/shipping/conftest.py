"""Shipping is tested against Penstock's broker and against Apache Kafka, alike."""

from collections.abc import Iterator

import pytest

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from harness.kafka.apache_kafka import ApacheKafka
from harness.penstock.broker import BrokerProcess


@pytest.fixture(params=["running_broker", "running_kafka"])
def broker(request: pytest.FixtureRequest) -> BrokerProcess | ApacheKafka:
    found: BrokerProcess | ApacheKafka = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def brokers(broker: BrokerProcess | ApacheKafka) -> Iterator[Brokers]:
    with Brokers(Bootstrap.of(broker.bootstrap), patience_seconds=60) as connected:
        yield connected
