"""Reports: how intervals are written down, and what a run may have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.intervals import Intervals, merged
from loader.errors import TooManyHours
from loader.values.reports import (
    MOST_HOURS_OF_RUN,
    check_hours,
    closed,
    half_open,
    intervals_of,
    landed_of,
)
from loader.values.tables import HOUR_MILLIS, Hour
from tests.loader.commit.made_up import HOUR, piece, report
from tests.loader.membership import contains


def hours(first: int, count: int) -> dict[Hour, int]:
    return {Hour(HOUR + at * HOUR_MILLIS): 1 for at in range(first, first + count)}


def test_too_many_hours_in_all() -> None:
    """Hours of several slices are counted once."""
    check_hours([report(piece(n, 0, 10), hours(n, MOST_HOURS_OF_RUN - 1)) for n in range(2)])
    half = MOST_HOURS_OF_RUN // 2
    reports = [
        report(piece(n, n * 10, n * 10 + 10), hours(n * half, half + n // 2)) for n in range(3)
    ]
    check_hours(reports[:2])
    with pytest.raises(TooManyHours, match=r"^t-0, offsets 20 to 29: .* more than 20,000 hours"):
        check_hours(reports)


SETS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8).map(merged)


@given(SETS)
def test_the_same_numbers_are_in_both(intervals: Intervals) -> None:
    held = {number for first, after in intervals for number in range(first, after)}
    written = closed(intervals)
    assert {number for number in range(42) if contains(written, number)} == held
    assert half_open(written) == intervals
    landed = landed_of(intervals)
    assert intervals_of(landed) == intervals
    assert isinstance(landed, int) == (len(intervals) == 1 and intervals[0][0] == 0)


def test_they_are_written_with_both_ends() -> None:
    assert closed(((3, 7), (9, 10))) == landed_of(((3, 7), (9, 10))) == ((3, 6), (9, 9))
    assert landed_of(((0, 7),)) == 7
    assert intervals_of(0) == intervals_of(()) == ()
