"""The topic: created or refused, read from its beginning to its end and on, whatever happens."""

import logging
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from client.admin import topics as admin
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.errors import ClientError
from client.patience import Patience
from client.producing.producer import Producer
from cluster.layout import nodes, paths
from cluster.layout.nodes import StateNode
from cluster.session.operations import Set
from cluster.session.session import Session
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from registry.errors import RegistryFailure
from registry.log.topic import SchemasTopic, ready_topic
from registry.log.topic_follower import ReadBatch, TopicFollower
from registry.schemas_topic.values import LogRecord
from tests.registry.conftest import both
from wire.record_batches.batch import headers


def ready(bootstrap: str, name: str, *, create: bool = True) -> SchemasTopic:
    patience = Patience(20)
    while True:
        try:
            return ready_topic(Bootstrap.of(bootstrap), name, replication_factor=1, create=create)
        except ClientError as error:
            patience.wait(error)


class Followed:
    """A follower and what it has handed over, which it does only while it may `go_on`."""

    def __init__(
        self, bootstrap: str, topic: SchemasTopic, *, missing_seconds: float = 0.5
    ) -> None:
        self.stretches: list[ReadBatch] = []
        self.ended: list[str] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.held = threading.Event()
        self._follower = TopicFollower(
            Bootstrap.of(bootstrap),
            topic,
            take=self._take,
            on_end=self.ended.append,
            missing_seconds=missing_seconds,
        )

    def _take(self, stretches: Sequence[ReadBatch]) -> None:
        if not self.go_on.is_set():
            self.held.set()
        self.go_on.wait(60)
        self.stretches += stretches

    @property
    def records(self) -> list[tuple[int, LogRecord]]:
        return [record for stretch in list(self.stretches) for record in stretch.records]

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for _, record in self.records]

    def wait_for(self, count: int, *, within: float = 20) -> None:
        wait_until(lambda: len(self.records) >= count, within=within, what=f"{count} records")

    def __enter__(self) -> "Followed":
        self._follower.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on.set()
        self._follower.stop()


def send(brokers: Brokers, topic: str, *values: bytes) -> None:
    producer = Producer(brokers, topic, create=False)
    for value in values:
        producer.send(value, b"key")
    producer.flush()


def ended(followed: Followed) -> str:
    wait_until(lambda: bool(followed.ended), within=20, what="the follower ends")
    return followed.ended[0]


@both
def test_it_is_created_compacted_and_found_again(
    bootstrap: str, brokers: Brokers, new_topic: str
) -> None:
    created = ready(bootstrap, new_topic)
    assert (created.start, created.end) == (0, 0)
    assert len(brokers.topic(new_topic).partitions) == 1
    configs = {each.name: each.value for each in admin.topic_configs(brokers, new_topic)}
    assert configs["cleanup.policy"] == "compact"
    send(brokers, new_topic, b"1", b"2")
    assert ready(bootstrap, new_topic).end == 2
    assert ready(bootstrap, new_topic).id == created.id
    assert created.id is not None
    assert created.cluster_id


@both
@pytest.mark.parametrize(
    "wrong",
    [
        (2, "compact", "has 2 partitions"),
        (1, "delete", "has cleanup.policy=delete and would lose schemas"),
        (1, "compact,delete", "has cleanup.policy=compact,delete and would lose schemas"),
    ],
)
def test_one_that_would_lose_schemas_is_refused(
    bootstrap: str, brokers: Brokers, new_topic: str, wrong: tuple[int, str, str]
) -> None:
    partitions, policy, said = wrong
    configs = {"cleanup.policy": policy}
    admin.create_topic(brokers, new_topic, partitions=partitions, configs=configs)
    with pytest.raises(RegistryFailure, match=f"topic {new_topic} {said}"):
        ready(bootstrap, new_topic)


def test_where_nothing_is_written_nothing_is_created(
    bootstrap: str, brokers: Brokers, new_topic: str
) -> None:
    with pytest.raises(RegistryFailure, match=f"topic {new_topic}"):
        ready(bootstrap, new_topic, create=False)
    assert new_topic not in admin.all_topics(brokers).topics


@both
def test_all_is_read_and_what_comes_later(bootstrap: str, brokers: Brokers, new_topic: str) -> None:
    topic = ready(bootstrap, new_topic)
    producer = Producer(brokers, new_topic, create=False)
    producer.send(b"1", b"a")
    producer.send(None, b"b")
    producer.flush()
    with Followed(bootstrap, topic) as followed:
        followed.wait_for(2)
        assert followed.records == [(0, LogRecord(b"a", b"1")), (1, LogRecord(b"b", None))]
        producer.send(b"3", b"c")
        producer.flush()
        followed.wait_for(3)
    assert followed.records[2] == (2, LogRecord(b"c", b"3"))
    assert [stretch.next_offset for stretch in followed.stretches] == [2, 3]
    (author,) = {stretch.author for stretch in followed.stretches}
    assert author.epoch == 0
    assert followed.ended == []


def test_thousands_of_records_are_read_in_a_moment(
    bootstrap: str, brokers: Brokers, new_topic: str
) -> None:
    """In small batches, as a registry writes them. Our own time counts, not that of others here."""
    topic = ready(bootstrap, new_topic)
    producer = Producer(brokers, new_topic, create=False, batch_bytes=4000, request_seconds=200.0)
    for number in range(4_000):
        producer.send(b"%d " % number * 200, b"%d" % number)
    producer.flush()
    with Followed(bootstrap, topic) as followed:
        began = time.process_time()
        followed.wait_for(4_000)
        assert time.process_time() - began < 1
    assert [offset for offset, _ in followed.records] == list(range(4_000))


def own_broker(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> BrokerProcess:
    return BrokerProcess(tmp_path, zookeeper=f"{zookeeper.address}/{tmp_path.name}")


def test_a_broker_that_restarts_is_waited_for_and_said_once(
    tmp_path: Path, zookeeper: EmbeddedZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "registry.log.topic_follower")
    with own_broker(tmp_path, zookeeper) as broker:
        topic = ready(broker.bootstrap, "_schemas")
        with Followed(broker.bootstrap, topic) as followed:
            for restart in range(2):
                with Brokers(Bootstrap.of(broker.bootstrap)) as brokers:
                    send(brokers, "_schemas", b"%d" % restart)
                followed.wait_for(restart + 1)
                broker.restart()
            wait_until(lambda: len(caplog.records) == 4, within=20, what="it is said to be over")
    assert followed.values == [b"0", b"1"]
    levels = [record.levelname for record in caplog.records]
    assert levels == ["WARNING", "INFO"] * 2, caplog.messages
    assert followed.ended == []


@both
def test_a_topic_that_is_deleted_ends_it(bootstrap: str, brokers: Brokers, new_topic: str) -> None:
    topic = ready(bootstrap, new_topic)
    send(brokers, new_topic, b"1")
    with Followed(bootstrap, topic) as followed:
        followed.wait_for(1)
        admin.delete_topic(brokers, new_topic)
        assert ended(followed) == f"topic {new_topic} was deleted"


@both
def test_a_topic_that_is_made_anew_ends_it(
    bootstrap: str, brokers: Brokers, new_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = ready(bootstrap, new_topic)
    send(brokers, new_topic, b"1")
    with Followed(bootstrap, topic, missing_seconds=30) as followed:
        followed.wait_for(1)
        admin.delete_topic(brokers, new_topic)
        wait_until(lambda: "trying again" in caplog.text, within=20, what="it is missed")
        assert ready(bootstrap, new_topic).id != topic.id
        send(brokers, new_topic, b"2", b"3", b"4")
        assert ended(followed) == f"topic {new_topic} was deleted and recreated"
    assert followed.values == [b"1"]


def test_a_topic_that_was_cut_off_ends_it(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> None:
    """Also when what a new leader has added goes beyond what was read."""
    broker = own_broker(tmp_path, zookeeper)
    with broker, Brokers(Bootstrap.of(broker.bootstrap)) as brokers:
        topic = ready(broker.bootstrap, "_schemas")
        for value in (b"1", b"2", b"3"):
            send(brokers, "_schemas", value)
        with Followed(broker.bootstrap, topic) as followed:
            followed.wait_for(3)
            followed.go_on.clear()
            send(brokers, "_schemas", b"4")
            assert followed.held.wait(60)
            broker.kill()
            segment = broker.partition_dir("_schemas") / f"{0:020d}.log"
            _, (second, _), *_ = headers(segment.read_bytes())
            os.truncate(segment, second)
            begin_epoch(f"{zookeeper.address}/{tmp_path.name}", "_schemas", 1)
            broker.start()
            send(brokers, "_schemas", *[b"other"] * 5)
            followed.go_on.set()
            assert "was truncated to offset 1 after it was read up to 4" in ended(followed)
    assert followed.values == [b"1", b"2", b"3", b"4"]


def begin_epoch(zookeeper: str, topic: str, leader_epoch: int) -> None:
    """As when another leader was elected."""
    session = Session.connect(zookeeper, secret=None)
    path = paths.partition_state(topic, 0)
    node = session.read(path)
    assert node is not None
    state = nodes.decode(path, node.data, StateNode)
    changed = msgspec.structs.replace(state, leader_epoch=leader_epoch)
    session.write([Set(path, nodes.encode(changed))])
    session.close()
