"""Decides what to do with batches that may have been sent, by evidence of leader and log. Pure.

If the leader knows a batch's producer, its last sequence shows whether it has the batch. The log
shows where the batch is, and whether it is committed. Together:

    in_log      it is in the log: acknowledged, at a known or unknown offset
    repeated    it is not in the log, and its numbers are the next that the leader accepts: sent
                again byte for byte, so that the leader accepts only one of this and a copy still in
                flight
    renumbered  it is not in the log, and the leader will never accept its old numbers

If the log's start has moved past the place where a batch may have been, and its producer is no
longer known, it is unknown whether it was there. Then it is sent again: twice rather than never.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from client.producing.delivery import Stamped
from client.reading.log_search import BatchLocation
from wire.messages.describe_producers import ProducerState
from wire.record_batches.batch import MAX_SEQUENCE, next_sequence

_HALF: Final = (MAX_SEQUENCE + 1) // 2


class Evidence(msgspec.Struct, frozen=True):
    """The answers of the leader and the log about batches.

    `states` are the leader's producers by id; None if they are not available. `sightings` are the
    batches found in the log from `begins` on, where `wanted` was the requested start; `begins` is
    None if the log was not read.
    """

    topic_id: str
    partitions: int
    states: Mapping[int, ProducerState] | None
    sightings: Mapping[Stamped, BatchLocation]
    wanted: int
    begins: int | None

    @property
    def is_cut_off(self) -> bool:
        """Whether the log no longer has the offsets where these batches may have been."""
        return self.begins is not None and self.begins > self.wanted


class Verdicts(msgspec.Struct, frozen=True):
    """What to do with batches. `hidden` are in the log, but not committed yet; `doubtful` are sent
    again without certainty."""

    in_log: Mapping[Stamped, BatchLocation | None]
    repeated: Sequence[Stamped]
    renumbered: Sequence[Stamped]
    hidden: Sequence[Stamped]
    doubtful: Sequence[Stamped]


def says_absent(states: Mapping[int, ProducerState] | None, batch: Stamped) -> bool:
    """Whether the leader certainly does not have the batch."""
    state = None if states is None else states.get(batch.identity.producer_id)
    if state is None or state.producer_epoch > batch.identity.epoch:
        return False
    return not says_there(states, batch)


def says_there(states: Mapping[int, ProducerState] | None, batch: Stamped) -> bool:
    state = None if states is None else states.get(batch.identity.producer_id)
    if state is None or state.producer_epoch != batch.identity.epoch:
        return False
    return (state.last_sequence - batch.last_sequence) & MAX_SEQUENCE < _HALF


def judged(
    batches: Sequence[Stamped],
    evidence: Evidence,
    *,
    taken: frozenset[Stamped] = frozenset(),
    numbers_refused: bool = False,
) -> Verdicts:
    """Decides what to do with batches of one partition, oldest first.

    `taken` are those that the leader has acknowledged without an offset. `numbers_refused`: it has
    just refused the first batch for its numbers.
    """
    locations: dict[Stamped, BatchLocation | None] = {}
    absent_batches: list[Stamped] = []
    hidden_batches: list[Stamped] = []
    doubtful_batches: list[Stamped] = []
    for batch in batches:
        if batch in evidence.sightings:
            locations[batch] = evidence.sightings[batch]
        elif batch in taken:
            locations[batch] = None
        elif says_there(evidence.states, batch):
            if evidence.is_cut_off or evidence.begins is None:
                locations[batch] = None
            else:
                hidden_batches.append(batch)
        else:
            absent_batches.append(batch)
            if _is_doubtful(batch, evidence):
                doubtful_batches.append(batch)
    are_numbers_spoiled = numbers_refused and absent_batches[:1] == list(batches[:1])
    batches_again = [] if are_numbers_spoiled else _acceptable(absent_batches, evidence)
    return Verdicts(
        locations,
        batches_again,
        absent_batches[len(batches_again) :],
        hidden_batches,
        doubtful_batches,
    )


def _is_doubtful(batch: Stamped, evidence: Evidence) -> bool:
    if says_absent(evidence.states, batch):
        return False
    return evidence.begins is None or evidence.is_cut_off


def _acceptable(absent: Sequence[Stamped], evidence: Evidence) -> list[Stamped]:
    """The first batches, as many as the leader accepts with their numbers."""
    acceptable_batches: list[Stamped] = []
    for batch in absent:
        if acceptable_batches:
            last_batch = acceptable_batches[-1]
            is_next = batch.base_sequence == next_sequence(last_batch.last_sequence, 1)
            if batch.identity != last_batch.identity or not is_next:
                break
        elif not _is_next(batch, evidence):
            break
        acceptable_batches.append(batch)
    return acceptable_batches


def _is_next(batch: Stamped, evidence: Evidence) -> bool:
    """Whether the leader accepts this batch next, in its present state."""
    state = (evidence.states or {}).get(batch.identity.producer_id)
    if state is None:
        return True  # a leader accepts any sequence of an unknown producer
    if state.producer_epoch == batch.identity.epoch:
        return batch.base_sequence == next_sequence(state.last_sequence, 1)
    return state.producer_epoch < batch.identity.epoch and batch.base_sequence == 0
