"""Batches found in the log of both brokers by their producer's numbers."""

import pytest

from client.admin import topics as admin
from client.connection.brokers import Brokers
from client.errors import ConnectionLost
from client.producing.batch_producer import BatchProducer
from client.producing.delivery import Stamped, TopicPartition
from client.producing.identity import Identity
from client.producing.stamping import stamped
from client.reading.log_search import BatchLocation, search
from tests.client.shipped_topics import ship
from tests.client.shipper import RECORDS, numbered_batch
from wire.messages import delete_records
from wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)


@pytest.fixture
def target(brokers: Brokers, new_topic: str) -> TopicPartition:
    admin.create_topic(brokers, new_topic)
    return TopicPartition(new_topic, 0)


def shipped(brokers: Brokers, target: TopicPartition, count: int) -> list[Stamped]:
    shown: list[Stamped] = []
    with BatchProducer(brokers.bootstrap, journal=shown.extend) as producer:
        ship(producer, [numbered_batch(target, number) for number in range(count)])
    return shown


def test_each_is_found_where_it_is(brokers: Brokers, target: TopicPartition) -> None:
    first, second = shipped(brokers, target, 7), shipped(brokers, target, 3)
    other = stamped(first[0].batch, Identity(first[0].identity.producer_id, 9), 0)
    forged = stamped(numbered_batch(target, 42), first[4].identity, first[4].base_sequence)
    found = search(brokers, target, [first[6], second[0], first[2], other, forged], 0)
    assert found.found == {
        first[2]: BatchLocation(2 * RECORDS, found.found[first[2]].leader_epoch),
        first[6]: BatchLocation(6 * RECORDS, found.found[first[6]].leader_epoch),
        second[0]: BatchLocation(7 * RECORDS, found.found[second[0]].leader_epoch),
    }
    assert all(each.leader_epoch >= 0 for each in found.found.values())
    assert (found.begins, found.end) == (0, 10 * RECORDS)


def test_only_from_an_offset_on(brokers: Brokers, target: TopicPartition) -> None:
    batches = shipped(brokers, target, 5)
    found = search(brokers, target, batches, 3 * RECORDS)
    assert list(found.found) == batches[3:]
    assert found.begins == 3 * RECORDS
    found = search(brokers, target, batches, 5 * RECORDS)
    assert found.found == {}


def test_an_offset_beyond_the_end_is_of_another_log(
    brokers: Brokers, target: TopicPartition
) -> None:
    batches = shipped(brokers, target, 2)
    found = search(brokers, target, batches, 1_000)
    assert list(found.found) == batches
    assert found.begins == 0


def test_where_the_log_begins_later(brokers: Brokers, target: TopicPartition) -> None:
    batches = shipped(brokers, target, 4)
    part = DeleteRecordsPartition(partition_index=0, offset=2 * RECORDS)
    request = DeleteRecordsRequest(
        topics=(DeleteRecordsTopic(name=target.topic, partitions=(part,)),), timeout=10_000
    )
    ((leader, _),) = brokers.leaders(target.topic, [0]).items()
    brokers.broker(leader).call(delete_records.API, request)
    found = search(brokers, target, batches, 0)
    assert list(found.found) == batches[2:]
    assert found.begins == 2 * RECORDS


def test_it_is_given_up_when_it_does_not_go_on(brokers: Brokers, target: TopicPartition) -> None:
    batches = shipped(brokers, target, 2)
    with pytest.raises(ConnectionLost, match="search was stopped"):
        search(brokers, target, batches, 0, goes_on=lambda: False)
