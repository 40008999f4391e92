"""Determines which unsettled batches are in the log, from the leader's producer state.

A leader accepts a producer's batches strictly in sequence order. So its last sequence
(DescribeProducers) tells for every batch of that epoch whether it is in the log. It tells nothing
if the producer was forgotten, or fenced off by a newer epoch: then only the batches in the log
itself can tell.

Call this only when none of the batches can still be in flight; a broken connection does not show
that.
"""

from typing import Final

import msgspec

from client.connection.brokers import Brokers
from client.errors import check
from client.producing.delivery import Stamped, TopicPartition, Unsettled
from client.rights import on_topic
from wire.acls import Operation
from wire.messages import describe_producers
from wire.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from wire.record_batches.batch import MAX_SEQUENCE, next_sequence

_HALF: Final = (MAX_SEQUENCE + 1) // 2


class LookedUp(msgspec.Struct, frozen=True):
    """The batches that are in the log, and the batches that are not."""

    there: tuple[Stamped, ...]
    absent: tuple[Stamped, ...]
    next_sequence: int


def look_up(brokers: Brokers, unsettled: Unsettled) -> LookedUp | None:
    """Returns which batches are in the log; None if the leader cannot tell. Raises a ClientError if
    the leader does not answer."""
    if not unsettled.batches:
        return None
    identity = unsettled.batches[0].identity
    for state in producer_states(brokers, unsettled.target):
        if (state.producer_id, state.producer_epoch) == identity:
            return fate(unsettled.batches, state.last_sequence)
    return None


def fate(batches: tuple[Stamped, ...], last_sequence: int) -> LookedUp | None:
    """Splits consecutive batches into those in the log and the others, by the producer's last
    sequence there; None if the log has other batches of the producer."""
    stored_batches = tuple(
        batch for batch in batches if _is_not_before(last_sequence, batch.last_sequence)
    )
    absent_batches = batches[len(stored_batches) :]
    next_number = next_sequence(last_sequence, 1)
    if absent_batches and absent_batches[0].base_sequence != next_number:
        return None  # the log has other batches of this producer
    return LookedUp(stored_batches, absent_batches, next_number)


def producer_states(brokers: Brokers, target: TopicPartition) -> tuple[ProducerState, ...]:
    """Returns the leader's producer states. Raises a ClientError if the leader does not answer."""
    return brokers.persist(lambda: _states(brokers, target))


def _is_not_before(sequence: int, other: int) -> bool:
    return (sequence - other) & MAX_SEQUENCE < _HALF


def _states(brokers: Brokers, target: TopicPartition) -> tuple[ProducerState, ...]:
    brokers.refresh([target.topic])
    (leader,) = brokers.leaders(target.topic, [target.partition], Operation.READ)
    topic_request = TopicRequest(name=target.topic, partition_indexes=(target.partition,))
    request = DescribeProducersRequest(topics=(topic_request,))
    response = brokers.broker(leader).call(describe_producers.API, request)
    partition = response.topics[0].partitions[0]
    needs = on_topic(brokers.who, target.topic, Operation.READ)
    check(partition.error_code, str(target), partition.error_message, needs=needs)
    return partition.active_producers
