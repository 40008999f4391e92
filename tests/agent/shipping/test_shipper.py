"""The shipper against Penstock's broker and Apache Kafka: what is submitted is there, once."""

from pathlib import Path

from client import admin
from client.brokers import Brokers
from harness.apache_kafka import ApacheKafka
from harness.broker_process import BrokerProcess
from tests.agent.shipping.agent_side import agent_side, messages_in_log


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
