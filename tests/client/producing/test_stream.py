"""A partition's stream, rule by rule."""

import pytest

from client.errors import ConnectionLost, NotReachable, Refused
from client.patience import FIRST_PAUSE, NEVER, Pauses
from client.producing.delivery import Acknowledged, Batch, Event, Rejected, Stamped, Unsettled
from client.producing.identity import LAST_EPOCH, Identity
from client.producing.stream import PAUSE_SECONDS, Numbering, Stream
from tests.client.partition_model import TARGET, answer, batch_of
from wire.errors import ErrorCode
from wire.record_batches.batch import check_batch
from wire.record_batches.records import records

ME = Identity(7, 3)
LOST = ConnectionLost("broken")
TOO_LARGE = ErrorCode.message_too_large
OUT_OF_ORDER = ErrorCode.out_of_order_sequence_number


class Sender:
    """A stream whose answers are given by hand."""

    def __init__(self, numbering: Numbering = Numbering.OWN, sequence: int = 0) -> None:
        identity = None if numbering is Numbering.NONE else ME
        self.stream = Stream(TARGET, numbering, Pauses(lambda: 1.0), identity, sequence)
        self.now = 0.0
        self.batches: list[Batch] = []
        self.under_way: list[Stamped] = []

    def submit(self, count: int, *, due: float = NEVER) -> None:
        """Batches of two records each."""
        for _ in range(count):
            self.batches.append(batch_of(len(self.batches), 2))
            self.stream.submit(self.batches[-1], due)
        self.send()

    def send(self) -> list[Stamped]:
        sent = []
        while (at := self.stream.ready_at(self.now)) is not None and at <= self.now:
            sent.append(self.stream.next(self.now))
            self.stream.sent(sent[-1])
        self.under_way += sent
        return sent

    def answer(self, code: ErrorCode = ErrorCode.none, offset: int = 0) -> list[Event]:
        return self.stream.answered(self.under_way.pop(0), answer(code, offset), self.now)

    def lose_all(self) -> list[Event]:
        lost, self.under_way = self.under_way, []
        return [event for each in lost for event in self.stream.lost(each, LOST, self.now)]

    def wait(self, seconds: float = 10.0) -> list[Stamped]:
        self.now += seconds
        return self.send()

    def steady(self, count: int) -> None:
        """So many batches under way, which come behind one that was acknowledged."""
        self.submit(1)
        self.answer()
        self.submit(count)
        assert len(self.under_way) == min(count, 5)


def numbers(batches: list[Stamped]) -> list[tuple[int, int]]:
    """Epoch and base sequence of each."""
    return [(each.identity.epoch, each.base_sequence) for each in batches]


def test_a_batch_keeps_all_but_its_numbers() -> None:
    sender = Sender(sequence=40)
    sender.submit(1)
    (sent,) = sender.under_way
    before, after = sender.batches[0].header, check_batch(memoryview(sent.data))
    assert (after.producer_id, after.producer_epoch, after.base_sequence) == (7, 3, 40)
    assert after._replace(crc=0, producer_id=-1, producer_epoch=-1, base_sequence=-1) == (
        before._replace(crc=0)
    )
    assert list(records(sent.data)) == list(records(sender.batches[0].data))


def test_the_first_goes_alone_and_then_five() -> None:
    sender = Sender()
    sender.submit(8)
    assert numbers(sender.under_way) == [(3, 0)]
    assert sender.answer(offset=17) == [Acknowledged(sender.batches[0], 17)]
    assert numbers(sender.send()) == [(3, 2), (3, 4), (3, 6), (3, 8), (3, 10)]
    sender.answer()
    assert numbers(sender.send()) == [(3, 12)]


def test_after_a_pause_the_first_goes_alone_again() -> None:
    sender = Sender()
    sender.submit(1)
    sender.answer()
    sender.now += PAUSE_SECONDS - 1
    sender.submit(2)
    assert len(sender.under_way) == 2
    sender.answer()
    sender.answer()
    sender.now += PAUSE_SECONDS
    sender.submit(2)
    assert len(sender.under_way) == 1


def test_lost_batches_are_sent_again_byte_for_byte_one_before_the_others() -> None:
    sender = Sender()
    sender.steady(5)
    before = [each.data for each in sender.under_way]
    assert sender.lose_all() == []
    assert sender.send() == []
    again = sender.wait(FIRST_PAUSE)
    sender.answer()
    again += sender.send()
    assert [each.data for each in again] == before


def test_nothing_is_sent_while_answers_to_what_failed_before_are_to_come() -> None:
    sender = Sender()
    sender.steady(3)
    sender.answer(ErrorCode.request_timed_out)  # it was written all the same
    assert sender.answer() == [Acknowledged(sender.batches[2], 0)]
    assert sender.wait() == []
    sender.answer()
    assert numbers(sender.send()) == [(3, 2)]


def test_pauses_grow_until_something_is_acknowledged() -> None:
    sender = Sender()
    sender.submit(1)
    for factor in (1, 2, 4):
        sender.answer(ErrorCode.not_leader_or_follower)
        trouble = sender.stream.trouble
        assert isinstance(trouble, Refused)
        assert trouble.code is ErrorCode.not_leader_or_follower
        assert sender.stream.ready_at(sender.now) == sender.now + FIRST_PAUSE * factor
        sender.wait(FIRST_PAUSE * factor)
    sender.answer()
    assert sender.stream.trouble is None
    sender.submit(1)
    sender.answer(ErrorCode.not_leader_or_follower)
    assert sender.stream.ready_at(sender.now) == sender.now + FIRST_PAUSE


@pytest.mark.parametrize("open_behind", [0, 4])
def test_what_is_refused_comes_back_and_the_rest_goes_on_in_the_next_epoch(
    open_behind: int,
) -> None:
    sender = Sender()
    sender.steady(1 + open_behind)
    (rejected,) = sender.answer(TOO_LARGE)
    assert isinstance(rejected, Rejected)
    assert rejected.batch is sender.batches[1]
    assert isinstance(rejected.error, Refused)
    assert rejected.error.code is TOO_LARGE
    for _ in range(open_behind):
        assert sender.wait() == []
        assert sender.answer(OUT_OF_ORDER) == []
    sender.submit(1)
    assert numbers(sender.under_way) == [(4, 0)]
    assert sender.under_way[0].batch is sender.batches[2]
    sender.answer()
    assert numbers(sender.send()) == [(4, 2 * (n + 1)) for n in range(open_behind)]


def test_behind_a_refused_batch_each_is_sent_until_its_fate_is_known() -> None:
    sender = Sender()
    sender.steady(3)
    sender.answer(TOO_LARGE)
    sender.lose_all()
    sender.submit(1)
    first, second = sender.wait()[0], sender.batches[3]
    assert numbers([first]) == [(3, 4)]  # as before
    sender.answer(OUT_OF_ORDER)
    (again,) = sender.send()
    assert again.batch is second
    # Had the broker forgotten the producer, it would have taken it.
    assert sender.answer() == [Acknowledged(second, 0)]
    (renumbered,) = sender.send()[:1]
    assert (renumbered.batch, numbers([renumbered])) == (first.batch, [(4, 0)])


def test_what_failed_before_a_refused_batch_is_not_behind_it() -> None:
    sender = Sender()
    sender.steady(2)
    sender.answer(ErrorCode.not_enough_replicas)
    (rejected,) = sender.answer(TOO_LARGE)
    assert isinstance(rejected, Rejected)
    assert numbers(sender.wait()) == [(3, 2)]
    (unsettled,) = sender.answer(OUT_OF_ORDER)
    assert isinstance(unsettled, Unsettled)
    assert [each.batch for each in unsettled.batches] == [sender.batches[1]]


@pytest.mark.parametrize("code", [TOO_LARGE, ErrorCode.topic_authorization_failed])
def test_what_is_refused_but_may_have_been_written_is_unsettled(code: ErrorCode) -> None:
    sender = Sender()
    sender.steady(3)
    sender.lose_all()
    sender.wait()
    sent = [each.base_sequence for each in sender.under_way]
    (unsettled,) = sender.answer(code)
    assert isinstance(unsettled, Unsettled)
    assert [each.batch for each in unsettled.batches] == sender.batches[1:4]
    assert [each.base_sequence for each in unsettled.batches] == [*sent, 4, 6]
    assert isinstance(unsettled.error, Refused)
    assert unsettled.error.code is code


def test_what_wrote_nothing_leaves_no_doubt() -> None:
    sender = Sender()
    sender.submit(1)
    sender.answer(ErrorCode.not_enough_replicas)
    sender.wait()
    assert isinstance(sender.answer(TOO_LARGE)[0], Rejected)


def test_a_batch_that_is_always_corrupt_is_refused() -> None:
    sender = Sender()
    sender.submit(1)
    for _ in range(2):
        assert sender.answer(ErrorCode.corrupt_message) == []
        sender.wait()
    assert isinstance(sender.answer(ErrorCode.corrupt_message)[0], Rejected)


@pytest.mark.parametrize(
    "code",
    [
        OUT_OF_ORDER,
        ErrorCode.unknown_producer_id,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.producer_fenced,
        ErrorCode.unknown_server_error,
    ],
)
def test_where_only_the_log_can_tell_the_stream_stands_still(code: ErrorCode) -> None:
    sender = Sender()
    sender.steady(7)
    assert sender.answer(code) == []  # the others' answers first
    assert sender.wait() == []
    assert sender.answer() == [Acknowledged(sender.batches[2], 0)]
    assert sender.answer(OUT_OF_ORDER) == []
    sender.stream.lost(sender.under_way.pop(0), LOST, sender.now)
    (unsettled,) = sender.answer(OUT_OF_ORDER)
    assert isinstance(unsettled, Unsettled)
    assert [each.batch for each in unsettled.batches] == [sender.batches[at] for at in (1, 3, 4, 5)]
    assert isinstance(unsettled.error, Refused)
    assert unsettled.error.code is code
    sender.submit(1)
    assert sender.wait() == []
    assert len(sender.stream) == 3  # what was not sent waits


def test_a_fence_needs_another_id_and_a_gap_another_epoch() -> None:
    for code, fenced in ((ErrorCode.invalid_producer_epoch, True), (OUT_OF_ORDER, False)):
        sender = Sender()
        sender.submit(2)
        sender.answer(code)
        sender.stream.renew(first=sender.batches[:1])
        assert sender.stream.needs_identity is fenced
        if fenced:
            assert not sender.stream.takes(ME)
            sender.stream.identify(Identity(8, 0))
        (sent,) = sender.send()
        assert sent.batch is sender.batches[0]
        expected = Identity(8, 0) if fenced else Identity(7, 4)
        assert (sent.identity, sent.base_sequence) == (expected, 0)
        sender.answer()
        assert [each.batch for each in sender.send()] == sender.batches[1:]


def test_after_the_last_epoch_comes_another_id() -> None:
    sender = Sender()
    sender.stream.renew(Identity(7, LAST_EPOCH))
    sender.submit(2)
    sender.answer(TOO_LARGE)
    assert sender.stream.needs_identity
    assert not sender.stream.takes(Identity(7, 0))


def test_only_what_stands_still_or_has_nothing_open_is_renewed() -> None:
    sender = Sender()
    sender.submit(1)
    with pytest.raises(ValueError, match="t-0 still has 1 open batches"):
        sender.stream.renew(Identity(8, 0))
    sender.answer()
    sender.stream.renew(Identity(8, 0), 5)
    sender.submit(1)
    assert (sender.under_way[0].identity, sender.under_way[0].base_sequence) == ((8, 0), 5)


def test_without_numbers_one_at_a_time_as_they_are() -> None:
    sender = Sender(Numbering.NONE)
    sender.submit(3)
    for at in range(2):
        (sent,) = sender.under_way
        assert sent.data == sender.batches[at].data
        sender.lose_all()
        assert sender.wait()[0].data == sent.data
        sender.answer()
        sender.send()
    assert isinstance(sender.answer(TOO_LARGE)[0], Rejected)
    assert len(sender.stream) == 0


def test_a_duplicate_is_there_whether_or_not_the_broker_knows_where() -> None:
    sender = Sender()
    sender.submit(1)
    said = sender.answer(ErrorCode.duplicate_sequence_number, -1)
    assert said == [Acknowledged(sender.batches[0], None)]


def test_what_was_not_sent_in_time_is_not_there() -> None:
    stream = Sender().stream
    late, in_time = batch_of(0), batch_of(1)
    stream.submit(late, due=5)
    stream.submit(in_time, due=50)
    assert stream.expire(4.9) == []
    stream.trouble = NotReachable("nobody")
    assert stream.expire(5) == [Rejected(late, stream.trouble)]
    assert len(stream) == 1


def test_what_was_sent_and_not_answered_in_time_is_unsettled() -> None:
    sender = Sender()
    sender.submit(2, due=5)
    assert sender.stream.expire(6) == []
    (unsettled,) = sender.lose_all()
    assert isinstance(unsettled, Unsettled)
    assert [each.batch for each in unsettled.batches] == sender.batches[:1]
    assert "not acknowledged in time" in str(unsettled.error)
    assert sender.stream.expire(100) == []


def test_a_partition_that_can_never_be_written() -> None:
    refused = Refused("t", ErrorCode.topic_authorization_failed)
    sender = Sender(Numbering.NONE)
    sender.stream.submit(batch_of(0))
    (rejected,) = sender.stream.refuse_all(refused)
    assert isinstance(rejected, Rejected)
    assert rejected.error is refused
    sender.submit(2)
    assert sender.stream.refuse_all(refused) == []
    (unsettled,) = sender.lose_all()
    assert isinstance(unsettled, Unsettled)
    assert len(unsettled.batches) == 1
