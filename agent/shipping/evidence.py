"""What can be found out about batches that were sent, and what follows from it. Pure.

A leader that knows a batch's producer says with its last sequence whether it has the batch. Where
in the log it is, and whether it is there to stay, the log itself says. Together:

    there   it is in the log: acknowledged, at an offset, or at one that nobody can know any more
    again   it is not, and its numbers are the next ones that the leader takes: sent byte for byte
            as before, so that a copy that is still on its way and this one are taken once
    anew    it is not, and its old numbers will never be taken: sent under new ones

When the log's beginning has moved past where a batch may have been, and nobody knows its producer
any more, it cannot be known whether it was there. Then it is sent again: twice rather than never.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from client.delivery import Stamped
from client.log_search import BatchLocation
from wire.batch import MAX_SEQUENCE, next_sequence
from wire.messages.describe_producers import ProducerState

_HALF: Final = (MAX_SEQUENCE + 1) // 2


class Evidence(msgspec.Struct, frozen=True):
    """What the leader and the log say.

    `states` are the leader's producers by id; None if it cannot be asked. `sightings` are what the
    log shows from `begins` on, though it was to be read from `wanted` on; `begins` is None if it
    was not, or could not be, read.
    """

    topic_id: str
    partitions: int
    states: Mapping[int, ProducerState] | None
    sightings: Mapping[Stamped, BatchLocation]
    wanted: int
    begins: int | None

    @property
    def is_cut_off(self) -> bool:
        """Whether the log does not reach back to where these batches may be."""
        return self.begins is not None and self.begins > self.wanted


class Verdicts(msgspec.Struct, frozen=True):
    """`hidden` are there, but not to be seen yet; `doubtful` are sent again without knowing."""

    there: Mapping[Stamped, BatchLocation | None]
    again: Sequence[Stamped]
    anew: Sequence[Stamped]
    hidden: Sequence[Stamped]
    doubtful: Sequence[Stamped]


def says_absent(states: Mapping[int, ProducerState] | None, batch: Stamped) -> bool:
    """Whether the leader knows for sure that it does not have the batch."""
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
    """What to do with batches of one partition, oldest first.

    `taken` are those that the leader has called its own without saying where. `numbers_refused` if
    it has just refused the first for its numbers.
    """
    there: dict[Stamped, BatchLocation | None] = {}
    absent: list[Stamped] = []
    hidden: list[Stamped] = []
    doubtful: list[Stamped] = []
    for each in batches:
        if each in evidence.sightings:
            there[each] = evidence.sightings[each]
        elif each in taken:
            there[each] = None
        elif says_there(evidence.states, each):
            if evidence.is_cut_off or evidence.begins is None:
                there[each] = None
            else:
                hidden.append(each)
        else:
            absent.append(each)
            if _is_doubtful(each, evidence):
                doubtful.append(each)
    spoiled = numbers_refused and absent[:1] == list(batches[:1])
    again = [] if spoiled else _acceptable(absent, evidence)
    return Verdicts(there, again, absent[len(again) :], hidden, doubtful)


def _is_doubtful(batch: Stamped, evidence: Evidence) -> bool:
    if says_absent(evidence.states, batch):
        return False
    return evidence.begins is None or evidence.is_cut_off


def _acceptable(absent: Sequence[Stamped], evidence: Evidence) -> list[Stamped]:
    """So many of the first as the leader takes under the numbers that they have."""
    again: list[Stamped] = []
    for each in absent:
        if again:
            last = again[-1]
            follows = each.base_sequence == next_sequence(last.last_sequence, 1)
            if each.identity != last.identity or not follows:
                break
        elif not _is_next(each, evidence):
            break
        again.append(each)
    return again


def _is_next(batch: Stamped, evidence: Evidence) -> bool:
    """Whether a leader takes it that has nothing that it does not have."""
    state = (evidence.states or {}).get(batch.identity.producer_id)
    if state is None:
        return True  # of a producer that it does not know, a leader takes any sequence
    if state.producer_epoch == batch.identity.epoch:
        return batch.base_sequence == next_sequence(state.last_sequence, 1)
    return state.producer_epoch < batch.identity.epoch and batch.base_sequence == 0
