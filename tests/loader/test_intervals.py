"""Events of a source, as they are written down and as they are computed with."""

from hypothesis import given
from hypothesis import strategies as st

from ground.intervals import Intervals, merged
from loader.reports import closed, half_open, intervals_of, landed_of
from tests.loader.membership import contains

SETS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8).map(merged)


@given(SETS)
def test_the_same_numbers_are_in_both(intervals: Intervals) -> None:
    held = {number for first, after in intervals for number in range(first, after)}
    written = closed(intervals)
    assert {number for number in range(42) if contains(written, number)} == held
    assert half_open(written) == intervals


@given(SETS)
def test_what_is_whole_is_a_number(intervals: Intervals) -> None:
    landed = landed_of(intervals)
    assert intervals_of(landed) == intervals
    assert isinstance(landed, int) == (len(intervals) == 1 and intervals[0][0] == 0)


def test_they_are_written_with_both_ends() -> None:
    assert closed(((3, 7), (9, 10))) == landed_of(((3, 7), (9, 10))) == ((3, 6), (9, 9))
    assert landed_of(((0, 7),)) == 7
    assert intervals_of(0) == intervals_of(()) == ()
