"""What a leader's memory says of unsettled batches: in numbers, and against both brokers."""

import pytest

from client.admin import topics as admin
from client.connection.brokers import Brokers
from client.errors import ErrorCode, Refused
from client.producing.batch_producer import BatchProducer
from client.producing.delivery import Batch, Stamped, TopicPartition, Unsettled
from client.producing.identity import Identity, take_identity
from client.producing.producer import Delivered, Producer
from client.producing.producer_states import fate, look_up
from client.producing.stamping import stamped
from tests.client.partition_model import batch_of
from tests.client.shipped_topics import ship
from tests.client.shipper import numbered_batch, numbers_in_log, read_log
from wire.record_batches.batch import MAX_SEQUENCE

ME = Identity(7, 0)


def open_batches(first: int) -> tuple[Stamped, ...]:
    """Five of two records each."""
    sequences = [(first + 2 * at) & MAX_SEQUENCE for at in range(5)]
    return tuple(stamped(batch_of(at, 2), ME, each) for at, each in enumerate(sequences))


@pytest.mark.parametrize("first", [0, 100, MAX_SEQUENCE - 4, MAX_SEQUENCE - 5])
def test_the_last_sequence_tells_of_each(first: int) -> None:
    batches = open_batches(first)
    for there in range(6):
        last = (first + 2 * there - 1) & MAX_SEQUENCE
        found = fate(batches, last)
        assert found is not None
        assert (found.there, found.absent) == (batches[:there], batches[there:])
        assert found.next_sequence == (last + 1) & MAX_SEQUENCE


def test_numbers_that_are_not_these_tell_nothing() -> None:
    batches = open_batches(100)
    assert fate(batches, 100) is None  # in the middle of a batch
    assert fate(batches, 97) is None  # before what was acknowledged
    beyond = fate(batches, 500)
    assert beyond is not None
    assert beyond.there == batches


def test_what_is_open_is_looked_up(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic)
    target, other = TopicPartition(new_topic, 0), take_identity(brokers)
    identity = take_identity(brokers)
    batches = [numbered_batch(target, number) for number in range(9)]
    with BatchProducer(brokers.bootstrap, identity=identity) as producer:
        ship(producer, batches[:8])
    # A journal that is far behind: of these the last is not there, and nobody remembers the first.
    with BatchProducer(brokers.bootstrap) as producer:
        producer.renew(target, identity=identity, sequence=0)
        (unsettled,) = ship(producer, batches[:1])
        assert isinstance(unsettled, Unsettled)
        unsettled = Unsettled(target, all_stamped(batches, identity), unsettled.error)
        found = look_up(brokers, unsettled)
        assert found is not None
        assert [each.batch for each in found.there] == batches[:8]
        assert [each.batch for each in found.absent] == batches[8:]
        sequence = found.next_sequence
        producer.renew(target, identity=identity, sequence=sequence, first=batches[8:])
        ship(producer, [])
    assert numbers_in_log(brokers, target) == list(range(9))
    forgotten = Unsettled(target, all_stamped(batches, other), unsettled.error)
    assert look_up(brokers, forgotten) is None
    assert look_up(brokers, Unsettled(target, (), unsettled.error)) is None


def all_stamped(batches: list[Batch], identity: Identity) -> tuple[Stamped, ...]:
    return tuple(stamped(each, identity, 3 * at) for at, each in enumerate(batches))


def test_the_producer_of_messages_goes_on_where_the_leader_stands(
    brokers: Brokers, new_topic: str
) -> None:
    admin.create_topic(brokers, new_topic)
    target = TopicPartition(new_topic, 0)
    producer = Producer(brokers, new_topic)
    producer.send(b"0")
    producer.flush()
    ((header, _),) = read_log(brokers, target)
    mine = Identity(header.producer_id, header.producer_epoch)
    with BatchProducer(brokers.bootstrap) as other:
        other.renew(target, identity=mine, sequence=1)
        ship(other, [numbered_batch(target, number) for number in range(8)])
    # To the leader its next batch looks like one of long ago, which nobody remembers.
    producer.send(b"lost only because somebody else used the id")
    assert producer.flush() == [Delivered(0, None, 1)]
    producer.send(b"1")
    assert producer.flush() == [Delivered(0, 25, 1)]
    lent = Producer(brokers, new_topic, identity=mine)
    lent.send(b"no")
    with pytest.raises(Refused) as refused:
        lent.flush()
    assert refused.value.code is ErrorCode.out_of_order_sequence_number
    assert len(read_log(brokers, target)) == 10
