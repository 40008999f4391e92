"""The same complaint about the same address is said once and then counted, and none is lost."""

import logging
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.connections.complaints import MOST, PERIOD, ComplaintKind, Complaints
from harness.processes.hand_clock import HandClock
from wire.errors import ErrorCode


class Lines(logging.Handler):
    """What `broker.connections.complaints` logs."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def said(self) -> list[str]:
        return [record.getMessage() for record in self.records]

    def __enter__(self) -> "Lines":
        log = logging.getLogger("broker.connections.complaints")
        self._before = log.level, log.propagate
        log.setLevel(logging.DEBUG)
        log.propagate = False
        log.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        log = logging.getLogger("broker.connections.complaints")
        log.removeHandler(self)
        log.level, log.propagate = self._before


def test_the_first_is_said_at_once_and_the_rest_once_a_period() -> None:
    clock = HandClock()
    with Lines() as lines:
        complaints = Complaints(clock)
        for number in range(1000):
            complaints.say(ComplaintKind.CONNECTION_CLOSED, "10.0.0.1", f"client=10.0.0.1:{number}")
            clock.now += PERIOD / 2000
            complaints.tick()
        assert lines.said == ["connection closed client=10.0.0.1:0"]
        clock.now += PERIOD
        complaints.tick()
        assert lines.said[1:] == [
            "connection closed again count=999 in the last 90 s, the last: client=10.0.0.1:999"
        ]
        clock.now += PERIOD
        complaints.tick()
        assert len(lines.said) == 2
        complaints.say(ComplaintKind.CONNECTION_CLOSED, "10.0.0.1", "client=10.0.0.1:7")
        assert lines.said[2:] == ["connection closed client=10.0.0.1:7"]


def test_another_address_kind_or_sort_is_another_complaint() -> None:
    with Lines() as lines:
        complaints = Complaints(HandClock())
        for _ in range(3):
            complaints.say(ComplaintKind.CONNECTION_CLOSED, "10.0.0.1", "a")
            complaints.say(ComplaintKind.CONNECTION_CLOSED, "10.0.0.2", "b")
            complaints.say(ComplaintKind.REQUEST_REFUSED, "10.0.0.1", "c")
            complaints.say(ComplaintKind.CONNECTION_CLOSED, "10.0.0.1", "d", like="other")
    assert [line.split()[-1] for line in lines.said] == ["a", "b", "c", "d"]


def test_what_is_pending_is_said_at_the_end() -> None:
    clock = HandClock()
    with Lines() as lines:
        complaints = Complaints(clock)
        for text in ("first", "second", "third"):
            complaints.say(ComplaintKind.REQUEST_REFUSED, "10.0.0.1", text)
        clock.now += 5
        complaints.close()
        assert lines.said == [
            "request refused first",
            "request refused again count=2 in the last 5 s, the last: third",
        ]
        complaints.close()
        assert len(lines.said) == 2


def test_refused_batches_are_told_by_topic_and_error() -> None:
    with Lines() as lines:
        complaints = Complaints(HandClock())
        for partition in range(3):
            for code in (ErrorCode.corrupt_message, ErrorCode.invalid_record):
                complaints.batch_refused("10.0.0.1", "views", partition, code, "why")
        complaints.batch_refused("10.0.0.1", "clicks", 0, ErrorCode.invalid_record, "why")
    assert lines.said == [
        "batch refused client=10.0.0.1 topic=views partition=0 error=CORRUPT_MESSAGE reason='why'",
        "batch refused client=10.0.0.1 topic=views partition=0 error=INVALID_RECORD reason='why'",
        "batch refused client=10.0.0.1 topic=clicks partition=0 error=INVALID_RECORD reason='why'",
    ]


def test_what_clients_send_stays_one_line_of_bounded_length() -> None:
    with Lines() as lines:
        complaints = Complaints(HandClock())
        name = "views\n2026-01-01 broker ready" + "x" * 30_000
        complaints.batch_refused("10.0.0.1", name, 0, ErrorCode.invalid_record, "why")
    (line,) = lines.said
    assert line.isprintable()
    assert len(line) < 1100


def test_a_bug_is_shown_with_its_traceback_once_for_each_place() -> None:
    with Lines() as lines:
        complaints = Complaints(HandClock())
        for wrong in ("number", "5", "other", "0"):
            try:
                1 // int(wrong)
            except (ValueError, ZeroDivisionError) as bug:
                complaints.request_failed("10.0.0.1", "client=10.0.0.1:1", bug)
    assert lines.said == ["request failed client=10.0.0.1:1"] * 2
    shown = [record.exc_info[0] for record in lines.records if record.exc_info]
    assert shown == [ValueError, ZeroDivisionError]


@pytest.mark.not_quick("very many clients")
@pytest.mark.parametrize("kind", ComplaintKind)
def test_many_addresses_are_bounded_in_lines_and_memory(kind: ComplaintKind) -> None:
    clock = HandClock()
    with Lines() as lines:
        complaints = Complaints(clock)
        for number in range(50_000):
            complaints.say(kind, f"10.{number >> 8}.{number & 255}", "text")
        assert len(lines.said) == MOST
        clock.now += PERIOD
        complaints.tick()
    assert lines.said[MOST:] == [
        f"{kind.value} of others again count={50_000 - MOST} in the last {PERIOD:.0f} s, "
        "the last: text"
    ]


@given(
    st.lists(
        st.tuples(st.sampled_from(ComplaintKind), st.integers(0, 2 * MOST), st.floats(0, PERIOD)),
        max_size=400,
    )
)
def test_every_complaint_is_in_one_line_and_in_the_metrics(
    complained: list[tuple[ComplaintKind, int, float]],
) -> None:
    clock, counted = HandClock(), dict.fromkeys((kind.value for kind in ComplaintKind), 0)

    def count(kind: str) -> None:
        counted[kind] += 1

    with Lines() as lines:
        complaints = Complaints(clock, count)
        for kind, number, pause in complained:
            complaints.say(kind, str(number), "text")
            clock.now += pause
            complaints.tick()
        complaints.close()
    for kind in ComplaintKind:
        wanted = sum(each is kind for each, _, _ in complained)
        said = [line for line in lines.said if line.startswith(kind.value)]
        again = [found for line in said if (found := re.search(r"count=(\d+)", line))]
        total = len(said) - len(again) + sum(int(found[1]) for found in again)
        assert (total, counted[kind.value]) == (wanted, wanted)
