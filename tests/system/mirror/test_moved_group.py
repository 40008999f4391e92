"""A planned switch, and back, as docs/mirror.md has it: writers and a consumer group move to the
other cluster, write and read there, and come back. The group reads each record once, in order."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from harness.broker_cluster import BrokerCluster
from harness.mirror_process import MirrorProcess, side
from harness.two_clusters import PREFIX, SOURCE, TARGET, TwoClusters
from harness.waiting import wait_until
from tests.campaigns.mirror.watermarks import high

TOPIC = "clicks"
COPY = f"{PREFIX}{TOPIC}"
GROUP = "readers"
PARTITIONS = 2
_WITHIN = 120.0
_OFTEN = {"interval": 0.5, "groups": {"interval": 0.5}}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[TwoClusters]:
    settings = {"groups": {"initial_rebalance_delay": 0}}
    there = {"topics": [TOPIC], **_OFTEN}
    with TwoClusters(tmp_path, settings=settings, mirror_settings=there) as clusters:
        clusters.source.create_topic(TOPIC, replicas=[[1]] * PARTITIONS, configs={})
        yield clusters


def test_a_group_moves_to_the_other_cluster_and_back(clusters: TwoClusters, tmp_path: Path) -> None:
    source, target = clusters.both
    there, back = clusters.mirrors[1], _way_back(clusters, tmp_path / "back")
    read: list[tuple[int, int]] = []
    with there:
        _write(source, TOPIC, range(100))
        read += _read(source, TOPIC, 60)
        _wait_until_moved(source, TOPIC, target, COPY)
        _done(there, "promote", COPY)
        _write(target, COPY, range(100, 140))
        read += _read(target, COPY, 50)
    with back:
        _done(back, "demote", TOPIC)
        _wait_until_moved(target, COPY, source, TOPIC)
        _done(back, "promote", TOPIC)
    _done(there, "demote", COPY)
    _write(source, TOPIC, range(140, 160))
    read += _read(source, TOPIC, 50)
    for partition in range(PARTITIONS):
        wanted = range(partition, 160, PARTITIONS)
        assert [number for at, number in read if at == partition] == list(wanted)


def _way_back(clusters: TwoClusters, directory: Path) -> MirrorProcess:
    return MirrorProcess(
        directory,
        source=side(TARGET, clusters.target.bootstrap.split(",")),
        target=side(SOURCE, clusters.source.bootstrap.split(",")),
        settings={"name": "back", "topics": [COPY], "prefix": "", "strip": PREFIX, **_OFTEN},
    )


def _done(mirror: MirrorProcess, *command: str) -> None:
    told = mirror.told(*command)
    assert told.returncode == 0, told.stdout + told.stderr


def _write(cluster: BrokerCluster, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for number in numbers:
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(_WITHIN) == 0


def _read(cluster: BrokerCluster, topic: str, count: int) -> list[tuple[int, int]]:
    """The next of the group, which then leaves: partition and number of each."""
    consumer = _consumer(cluster)
    found: list[tuple[int, int]] = []
    try:
        consumer.subscribe([topic])
        while len(found) < count:
            messages = consumer.consume(count - len(found), _WITHIN)
            assert messages, f"{topic}: {len(found)} of {count} were read"
            for message in messages:
                assert message.error() is None, message.error()
                value, partition = message.value(), message.partition()
                assert value is not None
                assert partition is not None
                found.append((partition, int(value)))
                consumer.commit(message, asynchronous=False)
    finally:
        consumer.close()
    return found


def _wait_until_moved(
    here: BrokerCluster, topic: str, other: BrokerCluster, copied_to: str
) -> None:
    """All is copied, and the group is as far in the copy."""
    for each in range(PARTITIONS):
        wait_until(
            lambda each=each: high(other, copied_to, each) == high(here, topic, each) > 0,
            within=_WITHIN,
            what=f"partition {each} is copied",
            every=0.2,
        )
    wait_until(
        lambda: _committed(other, copied_to) == _committed(here, topic),
        within=_WITHIN,
        what="the group's offsets are copied",
        every=0.2,
    )


def _committed(cluster: BrokerCluster, topic: str) -> list[int]:
    consumer = _consumer(cluster)
    try:
        asked = [TopicPartition(topic, each) for each in range(PARTITIONS)]
        return [each.offset for each in consumer.committed(asked, _WITHIN)]
    finally:
        consumer.close()


def _consumer(cluster: BrokerCluster) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",
        }
    )
