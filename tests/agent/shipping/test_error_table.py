"""Every line of the table of errors, said by a broker that is told to: in order, each once."""

import threading
from pathlib import Path

import pytest

from client.producing.produce_errors import ErrorVerdict, verdict
from harness.processes.waiting import wait_until
from tests.agent.shipping.agent_side import AgentSide, Source, agent_side
from tests.agent.shipping.refusing_broker import TAKEN, Outcome, RefusingBroker
from wire.errors import ErrorCode
from wire.messages import describe_producers, fetch, init_producer_id, list_offsets
from wire.record_batches.batch import BatchHeader, read_header
from wire.record_batches.compression import Codec

REFUSED = "refused"
OTHER = "other"


def line_numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def ship_lines(side: AgentSide, source: Source, count: int) -> None:
    """Two in a batch."""
    for number in range(0, count, 2):
        side.ship(source, [str(number), str(number + 1)])


class Times:
    """Refuses a batch for the first so many times that anything reaches it."""

    def __init__(self, broker: RefusingBroker, code: ErrorCode, *, times: int, after: int) -> None:
        self.code, self.left, self.after = code, times, after
        self._broker = broker
        self.refused = threading.Event()
        broker.rule = self

    def __call__(self, topic: str, batch: memoryview) -> Outcome:
        if topic != REFUSED or self._broker.logs[topic].end < self.after or not self.left:
            return TAKEN
        self.left -= 1
        if not self.left:
            self.refused.set()
        return Outcome(False, self.code)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.topic_authorization_failed,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.invalid_topic_exception,
        ErrorCode.policy_violation,
        ErrorCode.unsupported_for_message_format,
        ErrorCode.invalid_required_acks,  # no line in the table
    ],
)
def test_what_stands_still_goes_on_in_order(tmp_path: Path, code: ErrorCode) -> None:
    assert verdict(code) is ErrorVerdict.REFUSED
    with RefusingBroker() as broker, agent_side(broker.bootstrap, tmp_path) as side:
        refusing = Times(broker, code, times=-1, after=10)
        source, other = side.new_source(REFUSED), side.new_source(OTHER)
        ship_lines(side, source, 40)
        why = wait_until(lambda: side.shipper.standing().get(REFUSED, ""))
        words = "not allowed" if "authorization" in code.name else code.name.replace("_", " ")
        assert words in why
        ship_lines(side, other, 10)
        wait_until(lambda: len(broker.messages(OTHER)) == 10)
        assert broker.messages(REFUSED) == line_numbers(10)
        refusing.left = 0
        side.settle()
        assert broker.messages(REFUSED) == line_numbers(40)
        wait_until(lambda: side.shipper.stalled() == {})


@pytest.mark.parametrize("code", [ErrorCode.message_too_large, ErrorCode.record_list_too_large])
def test_split_in_order(tmp_path: Path, code: ErrorCode) -> None:
    def rule(topic: str, batch: memoryview) -> Outcome:
        large = topic == REFUSED and read_header(batch).record_count > 3
        return Outcome(False, code) if large else TAKEN

    with RefusingBroker(rule) as broker, agent_side(broker.bootstrap, tmp_path) as side:
        source = side.new_source(REFUSED)
        side.ship(source, line_numbers(2))
        for first in range(2, 102, 10):
            side.ship(source, [str(number) for number in range(first, first + 10)])
        side.settle()
        assert broker.messages(REFUSED) == line_numbers(102)
        check_numbers(broker)


def check_numbers(broker: RefusingBroker) -> None:
    """No numbers are used for two batches."""
    numbers = [_numbers(each) for each in broker.headers(REFUSED)]
    assert len(numbers) == len(set(numbers))


def _numbers(header: BatchHeader) -> tuple[int, int, int]:
    return header.producer_id, header.producer_epoch, header.base_sequence


def test_a_codec_that_is_refused_is_not_used_again(tmp_path: Path) -> None:
    refusals = []

    def rule(topic: str, batch: memoryview) -> Outcome:
        if read_header(batch).codec in {Codec.ZSTD, Codec.GZIP} and topic == REFUSED:
            refusals.append(batch)
            return Outcome(False, ErrorCode.unsupported_compression_type)
        return TAKEN

    with RefusingBroker(rule) as broker, agent_side(broker.bootstrap, tmp_path) as side:
        source = side.new_source(REFUSED)
        ship_lines(side, source, 40)
        side.settle()
        assert broker.messages(REFUSED) == line_numbers(40)
        assert len(refusals) <= 10  # those that were under way
        assert {header.codec for header in broker.headers(REFUSED)} == {Codec.NONE}


@pytest.mark.parametrize("written", [True, False])
def test_an_error_for_a_batch_that_was_sent_twice(tmp_path: Path, written: bool) -> None:
    """The answer to the first time is lost; the second time it is called too large."""
    sent: list[int] = []

    def rule(topic: str, batch: memoryview) -> Outcome:
        count = read_header(batch).record_count
        if topic != REFUSED or count != 10:
            return TAKEN
        sent.append(count)
        if len(sent) == 1:
            return Outcome(written, None)
        return Outcome(False, ErrorCode.message_too_large)

    with RefusingBroker(rule) as broker, agent_side(broker.bootstrap, tmp_path) as side:
        source = side.new_source(REFUSED)
        side.ship(source, line_numbers(2))
        side.settle()
        side.ship(source, [str(number) for number in range(2, 12)])
        side.ship(source, ["12", "13"])
        side.settle()
        assert broker.messages(REFUSED) == line_numbers(14)
        counts = [header.record_count for header in broker.headers(REFUSED)]
        assert counts == ([2, 10, 2] if written else [2, 5, 5, 2])


def test_a_duplicate_without_its_offset_is_looked_for(tmp_path: Path) -> None:
    left = [1]

    def rule(topic: str, batch: memoryview) -> Outcome:
        if topic == REFUSED and left[0] and broker.logs[REFUSED].end >= 4:
            left[0] -= 1
            return Outcome(True, ErrorCode.duplicate_sequence_number)
        return TAKEN

    with RefusingBroker(rule) as broker, agent_side(broker.bootstrap, tmp_path) as side:
        ship_lines(side, side.new_source(REFUSED), 20)
        side.settle()
        wait_until(lambda: sum(broker.offsets_said(REFUSED)) == 20)
        assert broker.messages(REFUSED) == line_numbers(20)


def test_a_duplicate_that_nobody_may_look_for_is_there(tmp_path: Path) -> None:
    def rule(topic: str, batch: memoryview) -> Outcome:
        is_it = topic == REFUSED and read_header(batch).record_count == 3
        return Outcome(True, ErrorCode.duplicate_sequence_number) if is_it else TAKEN

    with RefusingBroker(rule) as broker, agent_side(broker.bootstrap, tmp_path) as side:
        source = side.new_source(REFUSED)
        side.ship(source, line_numbers(2))
        side.settle()
        for key in (describe_producers.API.key, fetch.API.key, list_offsets.API.key):
            broker.forbidden[key] = ErrorCode.topic_authorization_failed
        side.ship(source, ["2", "3", "4"])
        side.ship(source, ["5"])
        side.settle()
        assert broker.messages(REFUSED) == line_numbers(6)
        broker.forbidden.clear()


@pytest.mark.parametrize("said", [True, False])
def test_somebody_with_a_newer_epoch_makes_it_take_another_id(tmp_path: Path, said: bool) -> None:
    """Also if it is not said: the next epoch would be theirs, and its first batch a duplicate."""
    with RefusingBroker() as broker, agent_side(broker.bootstrap, tmp_path) as side:
        source = side.new_source(REFUSED)
        ship_lines(side, source, 10)
        side.settle()
        header = broker.headers(REFUSED)[-1]
        rival = header._replace(producer_epoch=header.producer_epoch + 1, base_sequence=0)
        broker.logs[REFUSED].producers.record(rival, 0, 0)
        if not said:
            Times(broker, ErrorCode.unknown_server_error, times=1, after=10)
        for number in range(10, 40, 2):
            side.ship(source, [str(number), str(number + 1)])
        side.settle()
        assert broker.messages(REFUSED) == line_numbers(40)
        assert broker.identities == 2
        check_numbers(broker)


def test_a_leader_that_has_lost_what_it_acknowledged_gets_what_comes_next(tmp_path: Path) -> None:
    with RefusingBroker() as broker, agent_side(broker.bootstrap, tmp_path) as side:
        source = side.new_source(REFUSED)
        ship_lines(side, source, 10)
        side.settle()
        log = broker.logs[REFUSED]
        kept = broker.headers(REFUSED)[0]
        del log.data[kept.size :]
        log.end = kept.record_count
        log.producers.clear()
        log.producers.record(kept, 0, 0)
        for number in range(10, 20, 2):
            side.ship(source, [str(number), str(number + 1)])
        side.settle()
        assert broker.messages(REFUSED) == ["0", "1", *map(str, range(10, 20))]


def test_without_a_producer_id_everything_stands_still(tmp_path: Path) -> None:
    with RefusingBroker() as broker:
        broker.forbidden[init_producer_id.API.key] = ErrorCode.cluster_authorization_failed
        with agent_side(broker.bootstrap, tmp_path) as side:
            ship_lines(side, side.new_source(REFUSED), 4)
            why = wait_until(lambda: side.shipper.stalled().get(REFUSED, ""))
            assert "not allowed" in why
            broker.forbidden.clear()
            side.settle()
            assert broker.messages(REFUSED) == line_numbers(4)


def test_a_topic_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    with RefusingBroker() as broker, agent_side(broker.bootstrap, tmp_path) as side:
        broker.no_topics = ErrorCode.topic_authorization_failed
        assert side.shipper.target(REFUSED) is None
        why = wait_until(lambda: side.shipper.stalled().get(REFUSED, ""))
        assert "not allowed" in why
        broker.no_topics = ErrorCode.none
        ship_lines(side, side.new_source(REFUSED), 4)
        side.settle()
        assert broker.messages(REFUSED) == line_numbers(4)
