"""Copies opened, closed again, and left alone for a while; groups that go with them, also to the
other cluster and back."""

from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from client.admin import topics as admin
from client.connection.brokers import Brokers
from client.groups.offset_commits import Consumed, commit_offsets
from client.groups.offsets import committed_offsets
from client.producing.delivery import TopicPartition as Place
from harness.penstock.broker import BrokerProcess
from harness.penstock.mirror import side
from harness.processes.waiting import wait_until
from tests.mirror.conftest import NewWorker
from tests.mirror.logs import create, ends, values, wait_copied, write
from tests.mirror.workers import Worker, stage, stands

PARTITIONS = 2
WITHIN = 120.0


def test_promoted_written_and_demoted_only_without_messages_of_its_own(
    there: Brokers, here: Brokers, new_topic: str, mirror: Worker
) -> None:
    copy = f"dc1.{new_topic}"
    create(there, new_topic, values(0, 50), partitions=2)
    mirror.start()
    wait_copied(there, here, new_topic, 2)
    mirror.kill()
    write(there, new_topic, values(50, 10))
    assert "the copy ends at 50, the source at 60" in mirror.refused("promote", copy)
    mirror.start()
    wait_copied(there, here, new_topic, 2)
    assert "open for writing" in mirror.done("promote", copy).stdout
    wait_until(lambda: stands(mirror, copy, "ordinary"), what="the mirror leaves it alone")
    mirror.done("demote", copy)
    write(there, new_topic, values(60, 5))
    wait_copied(there, here, new_topic, 2)
    mirror.done("promote", copy)
    write(here, copy, values(0, 3))
    assert "has 3 messages of its own from offset 65 to 67" in mirror.refused("demote", copy)


def test_demoted_where_the_source_has_more_partitions(
    there: Brokers, here: Brokers, new_topic: str, mirror: Worker
) -> None:
    copy = f"dc1.{new_topic}"
    create(there, new_topic, values(0, 50), partitions=2)
    mirror.start()
    wait_copied(there, here, new_topic, 2)
    mirror.kill()
    mirror.done("promote", copy)
    admin.add_partitions(there, new_topic, 3)
    write(there, new_topic, values(0, 5), 2)
    mirror.done("demote", copy)
    assert f"{copy}-2: the copy does not have it yet" in mirror.refused("promote", copy)
    mirror.start()
    wait_copied(there, here, new_topic, 3)


def test_paused_and_resumed(
    there: Brokers, here: Brokers, shared_topic: str, running_mirror: Worker
) -> None:
    copy = f"dc1.{shared_topic}"
    admin.create_topic(there, shared_topic, partitions=1)
    wait_copied(there, here, shared_topic)
    running_mirror.done("pause", copy)
    wait_until(lambda: stage(running_mirror, copy) == "paused", what="it is paused")
    write(there, shared_topic, values(0, 20))
    shown = running_mirror.told("status")
    assert "paused" in shown.stdout, shown
    assert ends(here, copy) == {0: 0}
    running_mirror.done("resume", copy)
    wait_copied(there, here, shared_topic)


def test_offsets_of_groups_go_along(
    there: Brokers, here: Brokers, shared_topic: str, running_mirror: Worker
) -> None:
    copy, group = f"dc1.{shared_topic}", f"group-{shared_topic}"
    create(there, shared_topic, values(0, 40))

    def offset() -> int:
        found = committed_offsets(here, [group])[group].get(Place(copy, 0))
        return -1 if found is None else found.offset

    for wanted in (25, 40):
        commit_offsets(there, group, {Place(shared_topic, 0): Consumed(wanted)})
        wait_until(lambda wanted=wanted: offset() == wanted, what=f"{wanted} is committed")
    assert running_mirror.process.alive


def test_a_group_moves_to_the_other_cluster_and_back(  # noqa: PLR0917
    source: BrokerProcess,
    target: BrokerProcess,
    there: Brokers,
    new_topic: str,
    new_worker: NewWorker,
    tmp_path: Path,
) -> None:
    """A planned switch, as docs/mirror.md has it: writers and a consumer group move to the
    other cluster, and come back. The group reads each record once, in order."""
    topic, copy, often = new_topic, f"dc1.{new_topic}", {"groups": {"interval": 0.5}}
    admin.create_topic(there, topic, partitions=PARTITIONS)
    away = new_worker(**often)
    back = Worker(
        tmp_path / "back",
        source=side("offline", [target.bootstrap]),
        target=side("dc1", [source.bootstrap]),
        settings={
            "name": "back",
            "topics": [copy],
            "prefix": "",
            "strip": "dc1.",
            "interval": 0.5,
            **often,
        },
    )
    group = Group(f"group-{topic}")
    with away:
        _write(source, topic, range(100))
        group.read(source, topic, 60)
        group.wait_moved((source, topic), (target, copy))
        away.done("promote", copy)
        _write(target, copy, range(100, 140))
        group.read(target, copy, 50)
    with back:
        back.done("demote", topic)
        group.wait_moved((target, copy), (source, topic))
        back.done("promote", topic)
    away.done("demote", copy)
    _write(source, topic, range(140, 160))
    group.read(source, topic, 50)
    for partition in range(PARTITIONS):
        wanted = range(partition, 160, PARTITIONS)
        assert [number for at, number in group.has_read if at == partition] == list(wanted)


def _write(cluster: BrokerProcess, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for number in numbers:
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(WITHIN) == 0


class Group:
    """A consumer group, at whichever cluster; `has_read` are partition and number of each."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.has_read: list[tuple[int, int]] = []

    def read(self, cluster: BrokerProcess, topic: str, count: int) -> None:
        """The next ones; then it leaves."""
        consumer, before = self._consumer(cluster), len(self.has_read)
        try:
            consumer.subscribe([topic])
            while (left := before + count - len(self.has_read)) > 0:
                messages = consumer.consume(left, WITHIN)
                assert messages, f"{topic}: {left} of {count} were not read"
                for message in messages:
                    assert message.error() is None, message.error()
                    value, partition = message.value(), message.partition()
                    assert value is not None
                    assert partition is not None
                    self.has_read.append((partition, int(value)))
                    consumer.commit(message, asynchronous=False)
        finally:
            consumer.close()

    def wait_moved(self, of: tuple[BrokerProcess, str], to: tuple[BrokerProcess, str]) -> None:
        """All is copied, and the group is as far in the copy."""

        def stands(cluster: BrokerProcess, topic: str) -> list[int]:
            consumer = self._consumer(cluster)
            try:
                asked = [TopicPartition(topic, each) for each in range(PARTITIONS)]
                offsets = [each.offset for each in consumer.committed(asked, WITHIN)]
                ends = [consumer.get_watermark_offsets(each, WITHIN) for each in asked]
                return [*offsets, *(high for _, high in ends or ())]
            finally:
                consumer.close()

        wait_until(lambda: stands(*to) == stands(*of), within=WITHIN, what="all is moved")

    def _consumer(self, cluster: BrokerProcess) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": self._name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_uncommitted",
            }
        )
