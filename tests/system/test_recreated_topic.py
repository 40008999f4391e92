"""A topic is deleted and created again under its name: its old data never appears."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from tests.system.clients.librdkafka import LibrdkafkaAdmin
from tests.system.clients.stored import segments
from tests.system.produce import must_produce, produce
from tests.system.topics import create


@pytest.fixture(scope="module")
def broker(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("recreated")
    with BrokerProcess(directory, zookeeper=f"{zookeeper.address}/recreated") as broker:
        yield broker


def delete(broker: BrokerProcess, topic: str) -> None:
    """Deletes it, and returns when no client is told of it any more."""
    admin = LibrdkafkaAdmin()
    admin.delete_topic(broker.bootstrap, topic)
    wait_until(lambda: topic not in admin.topics(broker.bootstrap), what="it is unlisted")


def topic_id(broker: BrokerProcess, topic: str) -> str:
    text = (broker.partition_dir(topic) / "partition.metadata").read_text()
    return next(line for line in text.splitlines() if line.startswith("topic_id:"))


def test_the_directory_of_an_earlier_life_is_not_adopted(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    """As a restored backup, or a disk that was away meanwhile, would have it."""
    create(broker.bootstrap, "restored")
    must_produce(broker.bootstrap, "restored", [b"first life"])
    first = topic_id(broker, "restored")
    shutil.copytree(broker.partition_dir("restored"), tmp_path / "earlier")
    delete(broker, "restored")
    create(broker.bootstrap, "restored")
    must_produce(broker.bootstrap, "restored", [b"second life", b"second life"])
    broker.terminate()
    shutil.rmtree(broker.partition_dir("restored"))
    shutil.copytree(tmp_path / "earlier", broker.partition_dir("restored"))
    broker.start()
    done = produce(broker.bootstrap, "restored", [b"now"])
    # Its own data is missing, which is said; what was lost is not given again.
    assert (done.error, done.base_offset) == (0, 2)
    assert topic_id(broker, "restored") != first
    for file in segments(broker.partition_dir("restored")):
        assert b"first life" not in file.read_bytes()
    assert "acknowledged messages 0 to 1" in broker.http("/readyz")[1]
