"""How fast topics grow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.status.values import Rates
from tests.penstock.status.made_up import NOW, standing, topic


def rates_of(*seen: tuple[int, int]) -> float:
    """Of a topic that had these ends, at so many milliseconds each."""
    rates = Rates()
    for at, end in seen:
        rates.add(standing([topic("t", end)], now=NOW + at))
    return rates.of("t")


def test_a_rate_needs_two_looks() -> None:
    assert rates_of((0, 100)) == -1
    assert rates_of((0, 100), (0, 900)) == -1
    assert rates_of((0, 100), (1_000, 150)) == 50
    assert Rates().of("t") == -1


def test_a_rate_is_of_the_last_seconds() -> None:
    assert rates_of((0, 0), (60_000, 1_000_000), (65_000, 1_000_500)) == 100


def test_a_number_beyond_all_bounds_is_some_number() -> None:
    assert rates_of((0, 0), (1_000, 10**400)) == pytest.approx(2**63)


def test_a_clock_that_is_set_back_begins_anew() -> None:
    assert rates_of((0, 0), (1_000, 100), (-3_600_000, 200)) == -1
    assert rates_of((0, 0), (1_000, 100), (-3_600_000, 200), (-3_599_000, 210)) == 10


def test_a_topic_that_is_made_anew_or_not_seen_has_none() -> None:
    assert rates_of((0, 100), (1_000, 10)) == -1
    rates = Rates()
    rates.add(standing([topic("t", 1)], now=NOW))
    rates.add(standing([topic("t", 5)], now=NOW + 1_000))
    rates.add(standing([topic("other", 5)], now=NOW + 2_000))
    assert rates.of("t") == -1


@given(st.lists(st.tuples(st.integers(1, 10_000), st.integers(0, 10_000)), min_size=2))
def test_a_rate_lies_between_the_slowest_and_the_fastest(steps: list[tuple[int, int]]) -> None:
    at = end = 0
    seen, speeds = [(0, 0)], []
    for millis, events in steps:
        at, end = at + millis, end + events
        seen.append((at, end))
        speeds.append(events * 1000 / millis)
    assert min(speeds) - 1e-6 <= rates_of(*seen) <= max(speeds) + 1e-6
