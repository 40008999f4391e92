"""A slice's batches, from both brokers: each once, whole, committed."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Producer as TheirProducer

from client.admin import topics as admin
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.errors import OffsetsMissing
from client.producing.batch_producer import BatchProducer
from client.producing.delivery import TopicPartition
from client.reading.fetcher import FetchedBatch
from client.reading.partition_reader import PartitionReader
from client.reading.plain_batches import PlainBatches
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.kafka.apache_kafka import ApacheKafka
from harness.penstock.broker import BrokerProcess
from harness.penstock.recreated_topics import create_again
from tests.client.shipped_topics import delete_before, ship
from tests.client.shipper import RECORDS, numbered_batch
from wire.record_batches.batch import read_header
from wire.record_batches.records import records


def shipped(brokers: Brokers, topic: str, count: int, *, padding: int = 0) -> list[bytes]:
    """The bytes of each batch behind its leader's epoch."""
    target = TopicPartition(topic, 0)
    batches = [numbered_batch(target, number, padding=padding) for number in range(count)]
    with BatchProducer(brokers.bootstrap) as producer:
        for first in range(0, count, 20):
            ship(producer, batches[first : first + 20])
    return [each.data[61:] for each in batches]


def contents(batches: Sequence[tuple[int, bytes]]) -> list[bytes]:
    return [data for _, data in batches]


def read(reader: PartitionReader) -> list[tuple[int, bytes]]:
    """Base offsets and bytes behind the header, copied while they are good."""
    return [(each.header.base_offset, bytes(each.data[61:])) for each in reader]


def read_together(reader: PartitionReader) -> list[tuple[int, bytes]]:
    """As `read`, of what is handed out together or by itself."""
    found = []
    for each in reader.together():
        if isinstance(each, PlainBatches):
            assert each.next_offset == reader.next_offset
            found += [(read_header(data).base_offset, data[61:]) for *_, data in each.batches]
        else:
            found.append((each.header.base_offset, bytes(each.data[61:])))
    return found


def first_values(reader: PartitionReader) -> list[bytes]:
    return [next(records(each.data)).value or b"" for each in reader]


@pytest.mark.parametrize("fetch_bytes", [1, 20_000, 8_000_000])
def test_slices_have_every_batch_once(brokers: Brokers, new_topic: str, fetch_bytes: int) -> None:
    """Wherever they are cut, and whatever an answer holds: one batch, some, all."""
    admin.create_topic(brokers, new_topic)
    wanted, end = shipped(brokers, new_topic, 60, padding=1_000), 60 * RECORDS
    edges = [0, 1, RECORDS, 40, 41, 42, 100, end]
    found: list[tuple[int, bytes]] = []
    for first, behind in pairwise(edges):
        reader = PartitionReader(brokers, new_topic, 0, first, behind, fetch_bytes=fetch_bytes)
        batches = read(reader)
        again = PartitionReader(brokers, new_topic, 0, first, behind, fetch_bytes=fetch_bytes)
        assert read_together(again) == batches
        assert again.next_offset == reader.next_offset
        assert all(first <= offset < behind for offset, _ in batches)
        assert behind <= reader.next_offset < behind + RECORDS
        found += batches
    assert contents(found) == wanted
    assert [offset for offset, _ in found] == [number * RECORDS for number in range(60)]


def test_an_empty_slice_is_read_at_once(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic)
    reader = PartitionReader(brokers, new_topic, 0, 7, 7)
    assert read(reader) == []
    assert reader.next_offset == 7


def test_a_batch_that_a_slice_begins_in_is_handed_out_if_it_is_wanted(
    brokers: Brokers, new_topic: str
) -> None:
    admin.create_topic(brokers, new_topic)
    wanted = shipped(brokers, new_topic, 4)
    middle = RECORDS + 1
    reader = PartitionReader(brokers, new_topic, 0, middle, 12, from_within=True)
    assert contents(read(reader)) == wanted[1:]
    assert contents(read(PartitionReader(brokers, new_topic, 0, middle, 12))) == wanted[2:]
    reader = PartitionReader(brokers, new_topic, 0, middle, 12, from_within=True)
    assert contents(read_together(reader)) == wanted[1:]


def test_a_batch_is_good_until_the_next_but_one(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic)
    wanted = shipped(brokers, new_topic, 30, padding=5_000)
    before: list[FetchedBatch] = []
    found = []
    # Two of them in each answer, or one.
    for fetch_bytes in (40_000, 1):
        for each in PartitionReader(brokers, new_topic, 0, 0, 90, fetch_bytes=fetch_bytes):
            before.append(each)
            found.append([bytes(batch.data[61:]) for batch in before[-2:]])
        expected = [wanted[max(0, at - 1) : at + 1] for at in range(30)]
        assert found == expected
        before.clear()
        found.clear()


def test_batches_larger_than_what_is_asked_for(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic)
    wanted = shipped(brokers, new_topic, 6, padding=250_000)
    reader = PartitionReader(brokers, new_topic, 0, 0, 6 * RECORDS, fetch_bytes=1_000)
    assert contents(read(reader)) == wanted


def test_what_was_deleted_is_named(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic)
    shipped(brokers, new_topic, 5)
    delete_before(brokers, new_topic, 4)
    said = f"{new_topic}-0: offsets 0 to 8 cannot be read: not, or no longer, in the log"
    with pytest.raises(OffsetsMissing, match=said) as missing:
        read(PartitionReader(brokers, new_topic, 0, 0, 9))
    assert (missing.value.first, missing.value.end) == (0, 9)
    # Where the log begins now lies within a batch.
    reader = PartitionReader(brokers, new_topic, 0, 4, 15, from_within=True)
    assert [offset for offset, _ in read(reader)] == [3, 6, 9, 12]


def test_a_topic_made_anew_is_not_the_one_that_was_meant(brokers: Brokers, new_topic: str) -> None:
    old = str(admin.create_topic(brokers, new_topic).id)
    shipped(brokers, new_topic, 3)
    assert len(read(PartitionReader(brokers, new_topic, 0, 0, 9, topic_id=old))) == 3
    admin.delete_topic(brokers, new_topic)
    create_again(brokers, new_topic)
    shipped(brokers, new_topic, 3)
    with pytest.raises(OffsetsMissing, match=f"the topic was recreated: id .*, before {old}"):
        read(PartitionReader(brokers, new_topic, 0, 0, 9, topic_id=old))


def test_what_does_not_come_is_not_waited_for_for_ever(
    running_broker: BrokerProcess, new_topic: str
) -> None:
    with Brokers(Bootstrap.of(running_broker.bootstrap), patience_seconds=1) as brokers:
        admin.create_topic(brokers, new_topic)
        shipped(brokers, new_topic, 2)
        reader = PartitionReader(brokers, new_topic, 0, 0, 7)
        said = f"{new_topic}-0: offsets 6 to 6 cannot be read: the log ends at 6"
        with pytest.raises(OffsetsMissing, match=said):
            read(reader)
        assert reader.next_offset == 6


def test_a_broker_that_is_started_again_meanwhile(
    tmp_path: Path, chroot: str, zookeeper: EmbeddedZooKeeper
) -> None:
    with (
        BrokerProcess(tmp_path, zookeeper=chroot) as broker,
        Brokers(Bootstrap.of(broker.bootstrap), patience_seconds=60) as brokers,
    ):
        admin.create_topic(brokers, "t")
        wanted = shipped(brokers, "t", 40, padding=10_000)
        found = []
        for each in PartitionReader(brokers, "t", 0, 0, 120, fetch_bytes=100_000):
            found.append(bytes(each.data[61:]))
            if len(found) == 10:
                broker.kill()
                broker.start()
        assert found == wanted


def test_only_what_is_committed(running_kafka: ApacheKafka, new_topic: str) -> None:
    settings = {"bootstrap.servers": running_kafka.bootstrap, "linger.ms": 0}
    with Brokers(Bootstrap.of(running_kafka.bootstrap), patience_seconds=60) as brokers:
        admin.create_topic(brokers, new_topic)
        one = TheirProducer({**settings, "transactional.id": f"{new_topic}-1"})
        two = TheirProducer({**settings, "transactional.id": f"{new_topic}-2"})
        plain = TheirProducer(settings)
        for each in (one, two):
            each.init_transactions(60)

        def write(producer: TheirProducer, value: bytes) -> None:
            producer.produce(new_topic, value, partition=0)
            assert producer.flush(60) == 0

        one.begin_transaction()
        two.begin_transaction()
        write(one, b"aborted")
        write(two, b"committed")
        write(plain, b"plain")
        write(one, b"aborted as well")
        one.abort_transaction(60)
        one.begin_transaction()
        write(one, b"of the next transaction")
        two.commit_transaction(60)
        one.commit_transaction(60)
        write(plain, b"the end")
        # 0 to 3, marker, 5, marker, marker, 8
        for fetch_bytes in (1, 8_000_000):
            reader = PartitionReader(brokers, new_topic, 0, 0, 9, fetch_bytes=fetch_bytes)
            assert first_values(reader) == [
                b"committed",
                b"plain",
                b"of the next transaction",
                b"the end",
            ]
            assert reader.next_offset == 9
            found, together = (
                how(PartitionReader(brokers, new_topic, 0, 0, 9, fetch_bytes=fetch_bytes))
                for how in (read, read_together)
            )
            assert found == together
            # From the middle of a transaction that was aborted.
            assert first_values(PartitionReader(brokers, new_topic, 0, 2, 4)) == [b"plain"]
            assert first_values(PartitionReader(brokers, new_topic, 0, 3, 5)) == []
