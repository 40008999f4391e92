"""When lines may leave, held against what a process does that keeps to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.reading.departures import Departures

LINGER = 0.1


def test_what_comes_after_a_pause_may_leave_at_once() -> None:
    departures = Departures(LINGER, 0.0, now=10.0, used=3.0)
    for turn in range(1, 50):
        departures.spent(3.0 + turn * 0.0005)
    assert departures.due <= 11.0


def test_what_comes_together_leaves_five_times_in_a_linger() -> None:
    departures = Departures(LINGER, 0.0, now=10.0, used=3.0)
    departures.left(11.0)
    departures.spent(3.001)
    assert departures.due == pytest.approx(11.02)


def test_who_has_worked_is_idle_for_seven_times_as_long() -> None:
    departures = Departures(LINGER, 0.0, now=10.0, used=3.0)
    departures.left(11.0)
    departures.spent(3.01)
    assert departures.due == pytest.approx(11.08)


def test_what_is_done_after_a_departure_counts_for_the_next() -> None:
    """Packing, and sending, which another thread does."""
    departures = Departures(LINGER, 0.0, now=10.0, used=3.0)
    departures.spent(3.004)
    departures.left(11.0)
    assert departures.due == pytest.approx(11.02)
    departures.spent(3.009)
    assert departures.due == pytest.approx(11.04)


def test_who_may_use_little_uses_half_of_it() -> None:
    for cpu_limit, pause in ((0.1, 0.2), (0.5, 0.08), (2.0, 0.08)):
        departures = Departures(LINGER, cpu_limit, now=10.0, used=3.0)
        departures.spent(3.01)
        assert departures.due == pytest.approx(10.0 + pause)


@given(
    linger=st.floats(0.0, 1.0),
    turns=st.lists(st.tuples(st.floats(0.0, 0.05), st.floats(0.0, 0.02)), max_size=200),
)
def test_what_leaves_early_takes_an_eighth_at_most(
    linger: float, turns: list[tuple[float, float]]
) -> None:
    """Each turn begins some time after the one before, leaves if it may, and works for a while."""
    now, used = 100.0, 7.0
    departures = Departures(linger, 0.0, now, used)
    times, before = [now], used
    for seconds, work in turns:
        now += seconds
        if now >= departures.due:
            assert now - times[-1] >= linger / 5 - 1e-9
            assert used - before <= (now - times[-1]) / 8 + 1e-9
            departures.left(now)
            times.append(now)
            before = used
        now, used = now + work, used + work
        departures.spent(used)


def test_whoever_works_an_eighth_of_the_time_waits_for_ever() -> None:
    """So it is `linger` that says when."""
    now, used = 100.0, 7.0
    departures = Departures(LINGER, 0.0, now, used)
    for _ in range(10_000):
        now, used = now + 0.025, used + 0.0032
        departures.spent(used)
        assert departures.due > now
