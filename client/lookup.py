"""What became of unsettled batches, as far as the partition's leader remembers their producer.

A leader takes a producer's batches strictly in the order of their sequences, so the last sequence
that it has (DescribeProducers) says of every batch of that epoch whether it is in the log. It says
nothing if the producer has been forgotten, or fenced off by a newer epoch: then only the batches in
the log itself can tell.

Ask when nothing of these batches can still be on its way, which a broken connection does not say.
"""

from typing import Final

import msgspec

from client.brokers import Brokers
from client.delivery import Stamped, TopicPartition, Unsettled
from client.errors import check
from client.rights import on_topic
from wire.acls import Operation
from wire.batch import MAX_SEQUENCE, next_sequence
from wire.messages import describe_producers
from wire.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest

_HALF: Final = (MAX_SEQUENCE + 1) // 2


class LookedUp(msgspec.Struct, frozen=True):
    """Which of the batches are in the log, and which are not."""

    there: tuple[Stamped, ...]
    absent: tuple[Stamped, ...]
    next_sequence: int


def look_up(brokers: Brokers, unsettled: Unsettled) -> LookedUp | None:
    """None if the leader cannot tell. Raises a ClientError if it cannot be asked."""
    if not unsettled.batches:
        return None
    identity = unsettled.batches[0].identity
    for state in producer_states(brokers, unsettled.target):
        if (state.producer_id, state.producer_epoch) == identity:
            return fate(unsettled.batches, state.last_sequence)
    return None


def fate(batches: tuple[Stamped, ...], last_sequence: int) -> LookedUp | None:
    """What a producer's last sequence says of its batches, which follow one another."""
    there = tuple(each for each in batches if _is_not_before(last_sequence, each.last_sequence))
    absent = batches[len(there) :]
    following = next_sequence(last_sequence, 1)
    if absent and absent[0].base_sequence != following:
        return None  # what it has are not these
    return LookedUp(there, absent, following)


def producer_states(brokers: Brokers, target: TopicPartition) -> tuple[ProducerState, ...]:
    """What the leader knows of producers. Raises a ClientError if it cannot be asked."""
    return brokers.persist(lambda: _states(brokers, target))


def _is_not_before(sequence: int, other: int) -> bool:
    return (sequence - other) & MAX_SEQUENCE < _HALF


def _states(brokers: Brokers, target: TopicPartition) -> tuple[ProducerState, ...]:
    brokers.refresh([target.topic])
    (leader,) = brokers.leaders(target.topic, [target.partition], Operation.READ)
    wanted = TopicRequest(name=target.topic, partition_indexes=(target.partition,))
    request = DescribeProducersRequest(topics=(wanted,))
    answer = brokers.broker(leader).call(describe_producers.API, request)
    found = answer.topics[0].partitions[0]
    needs = on_topic(brokers.who, target.topic, Operation.READ)
    check(found.error_code, str(target), found.error_message, needs=needs)
    return found.active_producers
