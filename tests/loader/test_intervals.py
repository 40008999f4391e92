"""Sets of numbers as intervals, held against sets."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from loader.intervals import (
    GrowingIntervals,
    count,
    lengthened,
    missing,
    shortened,
    subtract,
    union,
)
from loader.reports import Interval, Intervals
from tests.loader.membership import contains

SPANS = st.tuples(st.integers(-5, 40), st.integers(0, 8)).map(lambda each: (each[0], sum(each)))
SETS = st.lists(SPANS, max_size=8).map(lambda spans: union(tuple(spans)))


def numbers(intervals: Intervals) -> set[int]:
    return {number for first, last in intervals for number in range(first, last + 1)}


def spelled_as_usual(intervals: Intervals) -> bool:
    """Ascending, with something between each two."""
    return all(first <= last for first, last in intervals) and all(
        last + 1 < first for (_, last), (first, _) in pairwise(intervals)
    )


@given(st.lists(st.lists(SPANS, max_size=6).map(tuple), max_size=4))
def test_union(sets: list[Intervals]) -> None:
    found = union(*sets)
    assert numbers(found) == set().union(*map(numbers, sets))
    assert spelled_as_usual(found)


@given(SETS, SETS)
def test_two_sets(one: Intervals, other: Intervals) -> None:
    assert numbers(subtract(one, other)) == numbers(one) - numbers(other)
    assert spelled_as_usual(subtract(one, other))


@given(SETS, SPANS)
def test_one_set(intervals: Intervals, span: Interval) -> None:
    held = numbers(intervals)
    assert count(intervals) == len(held)
    assert {number for number in range(-6, 50) if contains(intervals, number)} == held
    assert numbers(missing(intervals, *span)) == numbers((span,)) - held


@given(st.lists(SPANS, max_size=20))
def test_growing(spans: list[Interval]) -> None:
    growing = GrowingIntervals()
    held: set[int] = set()
    for span in spans:
        assert numbers(growing.add(*span)) == numbers((span,)) - held
        held |= numbers((span,))
        assert numbers(growing.intervals) == held
        assert spelled_as_usual(growing.intervals)
        assert len(growing) == len(growing.intervals)


def test_a_source_in_order_is_one_interval_however_long() -> None:
    growing = GrowingIntervals()
    for start in range(0, 1_000_000, 1000):
        assert growing.add(start, start + 999) == ((start, start + 999),)
    assert growing.intervals == ((0, 999_999),)


@given(SETS)
def test_what_is_whole_is_a_number(intervals: Intervals) -> None:
    short = shortened(intervals)
    assert lengthened(short) == intervals
    assert isinstance(short, int) == (numbers(intervals) == set(range(max(count(intervals), 1))))
