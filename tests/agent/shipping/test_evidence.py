"""What follows for batches from what the leader and the log say of them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from agent.shipping.evidence import Evidence, judged
from client.producing.delivery import Batch, Stamped, TopicPartition
from client.producing.identity import Identity
from client.producing.stamping import stamped
from client.reading.log_search import BatchLocation
from wire.messages.describe_producers import ProducerState
from wire.record_batches.batch import MAX_SEQUENCE
from wire.record_batches.records import Record, build_batch

TARGET = TopicPartition("t", 0)
ME = Identity(7, 3)
OFFSET = 1_000


def batches_of(*sequences: int, identity: Identity = ME) -> list[Stamped]:
    """Two records each."""
    messages = [Record(at, 0, None, b"") for at in range(2)]
    data = build_batch(messages, leader_epoch=-1)
    return [stamped(Batch(TARGET, data), identity, each) for each in sequences]


def known(epoch: int, last_sequence: int) -> Mapping[int, ProducerState]:
    state = ProducerState(producer_id=7, producer_epoch=epoch, last_sequence=last_sequence)
    return {7: state}


def evidence(
    states: Mapping[int, ProducerState] | None,
    seen: Sequence[Stamped] = (),
    *,
    begins: int | None = OFFSET,
) -> Evidence:
    sightings = {each: BatchLocation(OFFSET + at, 5) for at, each in enumerate(seen)}
    return Evidence("id", 1, states, sightings, OFFSET, begins)


@pytest.mark.parametrize("first", [0, 10, MAX_SEQUENCE - 3, MAX_SEQUENCE - 2])
@pytest.mark.parametrize("count", range(4))
def test_the_last_sequence_and_the_log_agree(first: int, count: int) -> None:
    sent = batches_of(*((first + 2 * at) & MAX_SEQUENCE for at in range(3)))
    last = (first + 2 * count - 1) & MAX_SEQUENCE
    verdicts = judged(sent, evidence(known(3, last), sent[:count]))
    assert list(verdicts.in_log) == sent[:count]
    assert verdicts.repeated == sent[count:]
    assert [*verdicts.renumbered, *verdicts.hidden, *verdicts.doubtful] == []


@pytest.mark.parametrize(
    ("sequences", "states", "seen", "more", "verdicts"),
    [
        # What replicas do not have yet is waited for.
        ([10, 12], known(3, 13), 1, {}, {"in_log": [10], "hidden": [12]}),
        # It was there and is deleted by now: nobody knows where it lay.
        ([10, 12], known(3, 11), 0, {"begins": OFFSET + 1}, {"unplaced": [10], "repeated": [12]}),
        # The word of a leader counts where the log may not be read.
        ([10, 12], known(3, 11), 0, {"begins": None}, {"unplaced": [10], "repeated": [12]}),
        # A leader that knows nothing takes any sequence.
        ([10, 12, 14], {}, 1, {}, {"in_log": [10], "repeated": [12, 14]}),
        # What nobody can know is sent again.
        ([10, 12], {}, 0, {"begins": OFFSET + 1}, {"repeated": [10, 12], "doubtful": [10, 12]}),
        ([10, 12], None, 0, {"begins": None}, {"repeated": [10, 12], "doubtful": [10, 12]}),
        # An older epoch of the producer takes only a beginning.
        ([0, 2], known(2, 99), 0, {}, {"repeated": [0, 2]}),
        ([2, 4], known(2, 99), 0, {}, {"renumbered": [2, 4]}),
        # A newer epoch fences off what is not there.
        ([10, 12], known(4, 0), 1, {}, {"in_log": [10], "renumbered": [12]}),
        # Behind a gap numbers are of no use: 12 was refused; what was acknowledged is gone.
        ([10, 14, 16], known(3, 9), 0, {}, {"repeated": [10], "renumbered": [14, 16]}),
        ([20, 22], known(3, 9), 0, {}, {"renumbered": [20, 22]}),
        # Numbers that were just refused are not tried again, unless they are not those.
        ([10, 12], {}, 0, {"numbers_refused": True}, {"renumbered": [10, 12]}),
        ([10, 12], {}, 1, {"numbers_refused": True}, {"in_log": [10], "repeated": [12]}),
        # What the leader called its own is there.
        ([10, 12], {}, 0, {"taken": 1}, {"unplaced": [10], "repeated": [12]}),
    ],
)
def test_what_becomes_of_batches(
    sequences: Sequence[int],
    states: Mapping[int, ProducerState] | None,
    seen: int,
    more: dict[str, Any],
    verdicts: Mapping[str, Collection[int]],
) -> None:
    sent = batches_of(*sequences)
    about = evidence(states, sent[:seen], begins=more.get("begins", OFFSET))
    taken = frozenset(sent[: more.get("taken", 0)])
    found = judged(sent, about, numbers_refused=more.get("numbers_refused", False), taken=taken)
    said = {
        "in_log": [each for each, place in found.in_log.items() if place is not None],
        "unplaced": [each for each, place in found.in_log.items() if place is None],
        **{name: getattr(found, name) for name in ("repeated", "renumbered", "hidden", "doubtful")},
    }
    numbers = {name: [each.base_sequence for each in found] for name, found in said.items()}
    assert {name: found for name, found in numbers.items() if found} == verdicts


def test_each_identity_has_its_own_numbers() -> None:
    renumbered, old = batches_of(0, identity=Identity(7, 4)), batches_of(12)
    verdicts = judged([*renumbered, *old], evidence(known(3, 9)))
    assert verdicts.repeated == renumbered
    assert verdicts.renumbered == old
