"""Apache Kafka as the source, transactions and all."""

from pathlib import Path

from confluent_kafka import Producer

from client import admin
from client.bootstrap import Bootstrap
from client.brokers import Brokers
from harness.apache_kafka import ApacheKafka
from harness.broker_process import BrokerProcess
from harness.mirror_process import MirrorProcess, side
from tests.mirror.logs import batches, wait_copied


def test_as_source(
    running_kafka: ApacheKafka, target: BrokerProcess, here: Brokers, new_topic: str, tmp_path: Path
) -> None:
    mirror = MirrorProcess(
        tmp_path,
        source=side("dc1", [running_kafka.bootstrap]),
        target=side("offline", [target.bootstrap]),
        settings={"topics": [new_topic], "interval": 0.5, "groups": {"sync": False}},
    )
    with Brokers(Bootstrap.of(running_kafka.bootstrap), patience_seconds=60) as there:
        admin.create_topic(there, new_topic, partitions=1)
        producer = Producer(
            {"bootstrap.servers": running_kafka.bootstrap, "transactional.id": new_topic}
        )
        producer.init_transactions(60)
        for ending in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            for number in range(20):
                producer.produce(new_topic, b"message %d" % number)
            ending(60)
        with mirror:
            wait_copied(there, here, new_topic)
            assert batches(here, f"dc1.{new_topic}") == batches(there, new_topic)
