"""The lag of groups, of partitions of every kind, on Penstock's broker and on Apache Kafka."""

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from client.admin import topics as admin
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.groups.lag import Lag, lag
from client.groups.offset_commits import Consumed
from client.producing.delivery import TopicPartition
from client.producing.producer import Producer
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from harness.penstock.clusters.broker_cluster import BrokerCluster
from harness.processes.waiting import wait_until
from wire.messages import delete_records
from wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from wire.record_batches.records import Codec

NOW = 1_790_000_000  # seconds; nothing depends on the clock of the machine
GROUP = "billing"


def of(brokers: Brokers, topic: str, *offsets: int, now: float = NOW) -> list[Lag]:
    """Of a group that has committed these in the partitions of a topic."""
    committed = {TopicPartition(topic, at): Consumed(each) for at, each in enumerate(offsets)}
    found = lag(brokers, {GROUP: committed}, now)
    return [found[GROUP, target] for target in committed]


def write(
    brokers: Brokers,
    topic: str,
    ages: Mapping[int, list[float]],
    *,
    codec: Codec = Codec.NONE,
    padding: int = 0,
) -> None:
    """Messages of these ages, in seconds before NOW, by partition: those of one call are in one
    batch if they fit."""
    producer = Producer(brokers, topic, codec=codec)
    for partition, each in ages.items():
        for age in each:
            value = bytes(padding)
            producer.send(value, partition=partition, timestamp=int((NOW - age) * 1000))
    producer.flush()


def test_messages_and_seconds(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic, partitions=4)
    write(brokers, new_topic, {0: [90, 60, 30], 1: [50]})
    behind, done, empty, beyond = of(brokers, new_topic, 1, 1, 0, 7)
    assert behind == Lag(1, 0, 3, 2, (NOW - 60) * 1000, 60.0)
    assert (done.end, done.messages, done.seconds, done.unknown) == (1, 0, 0.0, "")
    assert (empty.end, empty.messages, empty.seconds) == (0, 0, 0.0)
    assert (beyond.end, beyond.messages, beyond.seconds) == (0, 0, 0.0)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD, Codec.LZ4])
def test_within_a_compressed_batch(brokers: Brokers, new_topic: str, codec: Codec) -> None:
    admin.create_topic(brokers, new_topic)
    write(brokers, new_topic, {0: [90, 60, 30, 10]}, codec=codec, padding=500)
    (found,) = of(brokers, new_topic, 2)
    assert (found.messages, found.seconds) == (2, 30.0)


def test_a_message_that_is_dated_ahead_is_no_negative_lag(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic)
    write(brokers, new_topic, {0: [-60]})
    (found,) = of(brokers, new_topic, 0)
    assert (found.messages, found.seconds) == (1, 0.0)


def test_batches_larger_than_what_is_asked_for_first(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic, partitions=8)
    ages = {each: [100.0 + each, 50.0] for each in range(8)}
    write(brokers, new_topic, ages, padding=200_000)
    found = of(brokers, new_topic, *[0] * 8)
    assert [each.seconds for each in found] == [100.0 + each for each in range(8)]


def test_many_groups_in_one_partition(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic)
    write(brokers, new_topic, {0: [90, 60, 30]})
    target = TopicPartition(new_topic, 0)
    committed = {f"group-{each}": {target: Consumed(each % 4)} for each in range(40)}
    found = lag(brokers, committed, NOW)
    assert {(each.committed, each.messages, each.seconds) for each in found.values()} == {
        (0, 3, 90.0),
        (1, 2, 60.0),
        (2, 1, 30.0),
        (3, 0, 0.0),
    }
    assert len(found) == 40


def test_what_a_topic_that_is_deleted_hides_is_said(brokers: Brokers, new_topic: str) -> None:
    other = f"{new_topic}-other"
    for each in (new_topic, other):
        admin.create_topic(brokers, each)
    write(brokers, other, {0: [90]})
    admin.delete_topic(brokers, new_topic)
    wait_until(
        lambda: not brokers.refresh([new_topic]).has(new_topic), within=60, what="it is gone"
    )
    committed = {TopicPartition(each, 0): Consumed(0) for each in (new_topic, other)}
    found = lag(brokers, {GROUP: committed}, NOW)
    gone = found[GROUP, TopicPartition(new_topic, 0)]
    assert (gone.messages, gone.seconds, gone.unknown) == (None, None, f"no topic {new_topic}")
    assert found[GROUP, TopicPartition(other, 0)].seconds == 90.0


def test_a_partition_that_the_topic_does_not_have(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic)
    there, absent = of(brokers, new_topic, 0, 0)
    assert there.messages == 0
    assert absent.messages is None
    assert "no partition 1" in absent.unknown


def test_what_was_removed_before_it_was_read(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic)
    for age in (90, 60, 30):
        write(brokers, new_topic, {0: [age]})
    leader = brokers.refresh([new_topic]).topic(new_topic).partition(0).leader
    before = DeleteRecordsPartition(partition_index=0, offset=2)
    request = DeleteRecordsRequest(
        topics=(DeleteRecordsTopic(name=new_topic, partitions=(before,)),), timeout=60_000
    )
    brokers.broker(leader).call(delete_records.API, request)
    (found,) = of(brokers, new_topic, 1)
    assert found == Lag(1, 2, 3, 1, (NOW - 30) * 1000, 30.0)


def test_what_is_known_is_not_read_again(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic, partitions=2)
    write(brokers, new_topic, {0: [90, 60], 1: [80, 40]})
    target, moved = TopicPartition(new_topic, 0), TopicPartition(new_topic, 1)
    first = lag(brokers, {GROUP: {target: Consumed(0), moved: Consumed(0)}}, NOW)
    committed = {target: Consumed(0), moved: Consumed(1)}
    again = lag(brokers, {GROUP: committed}, NOW + 5, before=first, most_bytes=0)
    assert again[GROUP, target].seconds == 95.0
    # Nothing may be read: it is looked for by time.
    unread = again[GROUP, moved]
    assert (unread.messages, unread.unknown) == (1, "")
    assert unread.seconds == pytest.approx(45.0, abs=2)


def test_hundreds_of_partitions_in_few_requests(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path, new_topic: str
) -> None:
    """Of a broker that nobody else asks for anything."""
    partitions = 500
    address = f"{zookeeper.address}/{new_topic}"
    with (
        BrokerProcess(tmp_path, zookeeper=address, settings={"ledger": False}) as broker,
        Brokers(Bootstrap.of(broker.bootstrap), patience_seconds=120) as brokers,
    ):
        admin.create_topic(brokers, new_topic, partitions=partitions)
        write(brokers, new_topic, {each: [60] for each in range(partitions)})
        requests = _requests(broker)
        found = of(brokers, new_topic, *[0] * partitions)
        assert {(each.messages, each.seconds) for each in found} == {(1, 60.0)}
        asked = {name: count - requests.get(name, 0) for name, count in _requests(broker).items()}
        assert asked["ListOffsets"] == 2
        # A busy broker answers in more pieces.
        assert asked["Fetch"] < partitions / 10
        assert sum(asked.values()) < partitions / 10 + 10


def _requests(broker: BrokerProcess) -> dict[str, int]:
    status, page = broker.http("/metrics")
    assert status == 200
    counted = re.findall(
        r'^penstock_broker_request_seconds_count\{api="(\w+)"\} (\S+)$', page, re.MULTILINE
    )
    return {name: int(float(count)) for name, count in counted}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BrokerCluster]:
    with BrokerCluster(tmp_path, brokers=3) as cluster:
        yield cluster


@pytest.mark.slow
def test_a_broker_that_is_away_hides_only_its_own(cluster: BrokerCluster, new_topic: str) -> None:
    """Killed, it is gone for ever: nobody leads its partitions. Frozen, it takes connections and
    never answers."""
    cluster.create_topic(new_topic, replicas=[[1], [2], [3]], configs={})
    with Brokers(Bootstrap.of(cluster.bootstrap), patience_seconds=60) as brokers:
        write(brokers, new_topic, {each: [60] for each in range(3)})
        cluster.kill(2)
        wait_until(lambda: cluster.leader(new_topic, 1) == -1, within=60, what="it is missed")
        one, lost, three = of(brokers, new_topic, 0, 0, 0)
        assert one.seconds == three.seconds == 60.0
        assert lost.messages is None
        assert "leader not available" in lost.unknown

        cluster.freeze(3)
        began = time.monotonic()
        committed = {TopicPartition(new_topic, each): Consumed(0) for each in range(3)}
        found = lag(brokers, {GROUP: committed}, NOW, within=15)
        assert time.monotonic() - began < 60, "as long as one that is away would be waited for"
        one, lost, frozen = (found[GROUP, each] for each in committed)
        assert one.seconds == 60.0
        assert lost.messages is None
        assert lost.unknown
        assert frozen.messages is None
        assert frozen.unknown
