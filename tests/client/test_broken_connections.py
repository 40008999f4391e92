"""A client whose broker is killed and comes back: nothing lost, nothing twice, in order."""

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from client.admin.topics import create_topic
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.errors import ConnectionLost, NotReachable
from client.producing.producer import Producer
from client.reading.consumer import Consumer
from client.reading.offsets import Beginning, End, start_offsets
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess


@pytest.fixture
def broker(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> BrokerProcess:
    return BrokerProcess(tmp_path, zookeeper=f"{zookeeper.address}/{tmp_path.name}")


@pytest.mark.slow
def test_producer_and_consumer_live_through_kills(broker: BrokerProcess) -> None:
    with broker, Brokers(Bootstrap.of(broker.bootstrap), patience_seconds=60) as brokers:
        create_topic(brokers, "t", partitions=2)
        producer = Producer(brokers, "t", batch_bytes=20_000)
        with Consumer(brokers, "t", Beginning()) as consumer:
            consumed: dict[int, list[int]] = {0: [], 1: []}
            for stretch in range(2):
                killing = threading.Thread(target=broker.restart, kwargs={"within": 60})
                killing.start()
                for number in range(stretch * 2_000, (stretch + 1) * 2_000):
                    producer.send(b"%d" % number, partition=number % 2)
                producer.flush()
                killing.join()
                while sum(map(len, consumed.values())) < (stretch + 1) * 2_000:
                    for partition, record in consumer.poll(1):
                        consumed[partition].append(int(record.value or b""))
    assert consumed == {0: list(range(0, 4_000, 2)), 1: list(range(1, 4_000, 2))}


def test_patience_ends(broker: BrokerProcess) -> None:
    with ExitStack() as stack:
        stack.enter_context(broker)
        bootstrap = Bootstrap.of(broker.bootstrap)
        with Brokers(bootstrap, patience_seconds=60) as patient:
            create_topic(patient, "t")
            start_offsets(patient, "t", [0], End())  # now its leader is in office
        brokers = stack.enter_context(Brokers(bootstrap, patience_seconds=1))
        producer = Producer(brokers, "t")
        with Consumer(brokers, "t", Beginning()) as consumer:
            assert list(consumer.poll(0.1)) == []
            broker.kill()
            producer.send(b"x")
            with pytest.raises((ConnectionLost, NotReachable)):
                producer.flush()
            with pytest.raises((ConnectionLost, NotReachable)):
                list(consumer)
