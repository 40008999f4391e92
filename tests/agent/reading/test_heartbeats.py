"""Heartbeats, held against a model: nothing may be open that was there when a mark was set."""

from hypothesis import given
from hypothesis import strategies as st

from agent.accounting.runs import SourceId
from agent.reading.heartbeats import Heartbeat

A, B = SourceId("a"), SourceId("b")


def test_nothing_to_read_and_nothing_open_is_acknowledged_at_once() -> None:
    heartbeat = Heartbeat()
    heartbeat.mark(1_000, {})
    assert heartbeat.read(lambda _: None)
    heartbeat.journalled(0)
    heartbeat.acknowledged(None)
    assert heartbeat.until == 1_000
    assert heartbeat.wants_mark


def test_what_grows_on_does_not_hold_it_up() -> None:
    heartbeat = Heartbeat()
    heartbeat.mark(1_000, {A: 10})
    assert not heartbeat.read({A: 9}.get)
    assert heartbeat.read({A: 500}.get)


def test_an_open_batch_holds_it_up() -> None:
    heartbeat = Heartbeat()
    heartbeat.mark(1_000, {A: 10, B: 0})
    assert heartbeat.read({A: 10, B: 0}.get)
    heartbeat.journalled(7)
    heartbeat.acknowledged(7)
    assert heartbeat.until == -1
    heartbeat.acknowledged(8)
    assert heartbeat.until == 1_000


def test_it_never_goes_back() -> None:
    heartbeat = Heartbeat()
    for millis in (1_000, 500):
        heartbeat.mark(millis, {})
        heartbeat.read(lambda _: None)
        heartbeat.journalled(0)
        heartbeat.acknowledged(None)
    assert heartbeat.until == 1_000


@given(st.lists(st.sampled_from(["write", "read", "journal", "ack", "mark"]), max_size=60))
def test_until_is_never_after_what_is_not_acknowledged(steps: list[str]) -> None:
    """One line is written a millisecond; a batch is what was read since the one before."""
    heartbeat = Heartbeat()
    written = read = journalled = acknowledged = 0
    times: list[int] = []  # when each line was written
    ends: list[int] = []  # of batches, in lines
    acked_batches = 0
    for now, step in enumerate(steps, start=1):
        if step == "write":
            times.append(now)
            written += 1
        elif step == "read":
            read = written
        elif step == "journal":
            if read > journalled:
                journalled = read
                ends.append(read)
        elif step == "ack":
            if acked_batches < len(ends):
                acknowledged = ends[acked_batches]
                acked_batches += 1
        elif heartbeat.wants_mark:
            heartbeat.mark(now, {A: written})
        reached = read
        if heartbeat.read(lambda _, reached=reached: reached) and journalled == read:
            heartbeat.journalled(len(ends) - 1)
        heartbeat.acknowledged(acked_batches if acked_batches < len(ends) else None)
        assert all(time > heartbeat.until for time in times[acknowledged:])
