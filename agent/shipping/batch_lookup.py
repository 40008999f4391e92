"""Looks up batches at the leader and in the log. Blocks, so it runs on a thread of its own.

The leader's producer states come first, since they take one request. The log is read only for
batches that the leader does not report as absent: they are there, and their offset is needed, or
their producer is unknown.

The ledger is not searched, so that agents do not need the right to read it: an entry has a unique
number, and counts once however often it is there.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

from agent.shipping.evidence import Evidence, says_absent
from client.connection.brokers import Brokers
from client.errors import ErrorCode, Refused, Unsupported
from client.producing.delivery import Stamped, TopicPartition
from client.producing.producer_states import producer_states
from client.reading.log_search import Searched, search
from ledger.names import LEDGER_TOPIC, topic_id_text
from wire.messages.describe_producers import ProducerState

log = logging.getLogger(__name__)

States = Mapping[int, ProducerState]


def evidence_of(
    brokers: Brokers,
    target: TopicPartition,
    batches: Sequence[Stamped],
    offset: int,
    goes_on: Callable[[], bool],
    *,
    everywhere: bool = False,
) -> Evidence:
    """Looks up batches in the log, from this offset on; or in the whole log with `everywhere`, if
    the log has lost acknowledged records.

    Raises a ClientError if that is not possible now.
    """
    topic = brokers.topic(target.topic)
    topic_id, partitions = topic_id_text(topic.id), len(topic.partitions)
    if target.partition >= partitions:
        return Evidence(topic_id, partitions, {}, {}, 0, 0)
    if target.topic == LEDGER_TOPIC:
        return Evidence(topic_id, partitions, {}, {}, offset, offset)
    states = _states(brokers, target, batches)
    possible_batches = [batch for batch in batches if not says_absent(states, batch)]
    if not possible_batches:
        return Evidence(topic_id, partitions, states, {}, offset, None)
    search_result = _searched(
        brokers, target, possible_batches, 0 if everywhere else offset, goes_on
    )
    if search_result is None:
        return Evidence(topic_id, partitions, states, {}, offset, None)
    begin_offset = max(search_result.begins, offset) if everywhere else search_result.begins
    return Evidence(topic_id, partitions, states, search_result.found, offset, begin_offset)


def _states(brokers: Brokers, target: TopicPartition, batches: Sequence[Stamped]) -> States | None:
    """The leader's states of these batches' producers."""
    producer_ids = {batch.identity.producer_id for batch in batches}
    try:
        states = producer_states(brokers, target)
    except Unsupported:
        return None
    except Refused as error:
        if not _is_forbidden(error):
            raise
        log.warning("cannot describe producers partition=%s error=%r", target, str(error))
        return None
    return {state.producer_id: state for state in states if state.producer_id in producer_ids}


def _searched(
    brokers: Brokers,
    target: TopicPartition,
    wanted: Sequence[Stamped],
    offset: int,
    goes_on: Callable[[], bool],
) -> Searched | None:
    try:
        return search(brokers, target, wanted, offset, goes_on=goes_on)
    except Refused as error:
        if not _is_forbidden(error):
            raise
        log.warning("cannot read the log partition=%s error=%r", target, str(error))
        return None


def _is_forbidden(error: Refused) -> bool:
    return error.code is ErrorCode.topic_authorization_failed
