"""What follows for batches from what the leader and the log say of them."""

from collections.abc import Mapping, Sequence

import pytest

from agent.shipping.evidence import Evidence, judged
from client.delivery import Batch, Stamped, TopicPartition
from client.identity import Identity
from client.log_search import BatchLocation
from client.stamping import stamped
from wire.batch import MAX_SEQUENCE
from wire.messages.describe_producers import ProducerState
from wire.records import Record, build_batch

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
    assert list(verdicts.there) == sent[:count]
    assert verdicts.again == sent[count:]
    assert [*verdicts.anew, *verdicts.hidden, *verdicts.doubtful] == []


def test_what_is_not_to_be_seen_yet_is_waited_for() -> None:
    sent = batches_of(10, 12)
    verdicts = judged(sent, evidence(known(3, 13), sent[:1]))
    assert list(verdicts.there) == sent[:1]
    assert verdicts.hidden == sent[1:]


def test_what_was_there_and_is_deleted_by_now_is_acknowledged_nobody_knows_where() -> None:
    sent = batches_of(10, 12)
    verdicts = judged(sent, evidence(known(3, 11), begins=OFFSET + 1))
    assert verdicts.there == {sent[0]: None}
    assert verdicts.again == sent[1:]
    assert not verdicts.doubtful  # of the second the leader knows that it is not there


def test_the_word_of_a_leader_counts_where_the_log_may_not_be_read() -> None:
    sent = batches_of(10, 12)
    verdicts = judged(sent, evidence(known(3, 11), begins=None))
    assert verdicts.there == {sent[0]: None}
    assert verdicts.again == sent[1:]


def test_a_leader_that_knows_nothing_takes_any_sequence() -> None:
    sent = batches_of(10, 12, 14)
    verdicts = judged(sent, evidence({}, sent[:1]))
    assert list(verdicts.there) == sent[:1]
    assert verdicts.again == sent[1:]
    assert not verdicts.doubtful


@pytest.mark.parametrize("begins", [OFFSET + 1, None])
def test_what_nobody_can_know_is_sent_again(begins: int | None) -> None:
    sent = batches_of(10, 12)
    verdicts = judged(sent, evidence({} if begins else None, begins=begins))
    assert verdicts.again == verdicts.doubtful == sent


def test_an_older_epoch_of_the_producer_takes_only_a_beginning() -> None:
    beginning, later = batches_of(0, 2), batches_of(2, 4)
    assert judged(beginning, evidence(known(2, 99))).again == beginning
    verdicts = judged(later, evidence(known(2, 99)))
    assert verdicts.anew == later
    assert not verdicts.again


def test_a_newer_epoch_fences_off_what_is_not_there() -> None:
    sent = batches_of(10, 12)
    verdicts = judged(sent, evidence(known(4, 0), sent[:1]))
    assert list(verdicts.there) == sent[:1]
    assert verdicts.anew == sent[1:]


def test_behind_a_gap_numbers_are_of_no_use() -> None:
    sent = batches_of(10, 14, 16)  # 12 was refused
    verdicts = judged(sent, evidence(known(3, 9)))
    assert verdicts.again == sent[:1]
    assert verdicts.anew == sent[1:]
    lost = batches_of(20, 22)  # what was acknowledged before them is gone from the log
    assert judged(lost, evidence(known(3, 9))).anew == lost


def test_each_identity_has_its_own_numbers() -> None:
    renumbered, old = batches_of(0, identity=Identity(7, 4)), batches_of(12)
    verdicts = judged([*renumbered, *old], evidence(known(3, 9)))
    assert verdicts.again == renumbered
    assert verdicts.anew == old


def test_numbers_that_were_just_refused_are_not_tried_again() -> None:
    sent = batches_of(10, 12)
    verdicts = judged(sent, evidence({}), numbers_refused=True)
    assert verdicts.anew == sent
    # Once the first is found, the refusal says nothing of the second.
    verdicts = judged(sent, evidence({}, sent[:1]), numbers_refused=True)
    assert verdicts.again == sent[1:]


def test_what_the_leader_called_its_own_is_there() -> None:
    sent = batches_of(10, 12)
    verdicts = judged(sent, evidence({}), taken=frozenset(sent[:1]))
    assert verdicts.there == {sent[0]: None}
    assert verdicts.again == sent[1:]
