"""Idempotent producers that have their ids from the release before go on when their broker, which
knows who they are, is updated, killed or stopped, with batches under way."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic

from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import REPOSITORY, BrokerProcess
from tests.releases.kept import releases, unpack_broker
from tests.system.conftest import kafka_java
from tests.system.guarded import WITHIN, Guarded, allow

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]

JAVA = "org.apache.kafka.clients.producer"
STRINGS = "org.apache.kafka.common.serialization.StringSerializer"
SECONDS = 2.0  # of writing before and after


def java_producer(java: Any, guarded: Guarded) -> Any:
    me = guarded.authority.sign("alice")
    properties = java.new("java.util.Properties")
    for name, value in {
        "bootstrap.servers": f"127.0.0.1:{guarded.ports[0]}",
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(guarded.authority.ca),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(me.both),
        "key.serializer": STRINGS,
        "value.serializer": STRINGS,
    }.items():
        properties.setProperty(name, value)
    return java.new(f"{JAVA}.KafkaProducer", properties)


def written(guarded: Guarded, topic: str) -> list[int]:
    consumer = Consumer(
        {**guarded.client("admin"), "group.id": topic, "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(WITHIN)) is not None and message.error() is None:
        found.append(int(message.value() or b""))
    consumer.close()
    assert message is not None
    assert message.error().code() == KafkaError._PARTITION_EOF
    return found


@pytest.mark.parametrize("end", [BrokerProcess.stop, BrokerProcess.kill])
@pytest.mark.parametrize("release", releases()[-1:])
def test_producers_go_on_over_an_update(
    zookeeper: EmbeddedZooKeeper,
    tmp_path: Path,
    release: str,
    end: Callable[[BrokerProcess], object],
) -> None:
    unpack_broker(release, tmp_path / release)
    guarded = Guarded(tmp_path, f"{zookeeper.address}/{tmp_path.name}")
    broker = guarded.brokers[0]
    broker.run_from(tmp_path / release)
    refused: list[KafkaError] = []
    done = threading.Event()
    numbers = {"librdkafka": 0, "java": 0}
    with broker, kafka_java() as java:
        admin = AdminClient(guarded.client("admin"))
        for topic in numbers:
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(WITHIN)
            allow(admin, "alice", AclOperation.WRITE, topic)
        plain = Producer({**guarded.client("alice"), "enable.idempotence": True, "linger.ms": 2})
        foreign = java_producer(java, guarded)

        def write() -> None:
            while not done.is_set():
                value = str(numbers["librdkafka"])
                plain.produce("librdkafka", value, on_delivery=lambda e, _: e and refused.append(e))
                numbers["librdkafka"] += 1
                foreign.send(java.new(f"{JAVA}.ProducerRecord", "java", str(numbers["java"])))
                numbers["java"] += 1
                plain.poll(0.002)

        writer = threading.Thread(target=write)
        writer.start()
        time.sleep(SECONDS)
        end(broker)
        broker.run_from(REPOSITORY)
        broker.start()
        time.sleep(SECONDS)
        done.set()
        writer.join()
        foreign.close()
        assert (plain.flush(WITHIN), refused) == (0, [])
        for topic, count in numbers.items():
            assert written(guarded, topic) == list(range(count))
