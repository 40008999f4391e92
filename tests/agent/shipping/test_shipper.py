"""The shipper against Penstock's broker and Apache Kafka: what is submitted is there, once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from client import admin
from client.addresses import parse_addresses
from client.brokers import Brokers
from tests.agent.shipping.agent_side import agent_side, messages_in_log
from tests.apache_kafka import ApacheKafka
from tests.broker_process import BrokerProcess


@pytest.fixture(params=["running_broker", "running_kafka"])
def broker(request: pytest.FixtureRequest) -> BrokerProcess | ApacheKafka:
    found: BrokerProcess | ApacheKafka = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def brokers(broker: BrokerProcess | ApacheKafka) -> Iterator[Brokers]:
    with Brokers(parse_addresses(broker.bootstrap), patience_seconds=60) as connected:
        yield connected


def test_what_is_submitted_is_there_once(
    broker: BrokerProcess | ApacheKafka, brokers: Brokers, tmp_path: Path, new_topic: str
) -> None:
    admin.create_topic(brokers, new_topic, partitions=4)
    with agent_side(broker.bootstrap, tmp_path / "agent") as side:
        source = side.new_source(new_topic)
        for number in range(50):
            side.ship(source, [f"{number}-{at}" for at in range(20)])
        side.settle()
        target = side.target(new_topic)
        assert messages_in_log(brokers, target) == [
            f"{number}-{at}" for number in range(50) for at in range(20)
        ]
        assert side.shipper.counts.topics[new_topic].events == 1_000
        assert side.shipper.room()
        assert side.shipper.stalled() == {}
