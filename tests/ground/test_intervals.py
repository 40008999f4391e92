"""Intervals against sets of numbers."""

from hypothesis import given
from hypothesis import strategies as st

from ground.intervals import (
    GrowingIntervals,
    Interval,
    Intervals,
    covers,
    gaps,
    has,
    intersection,
    merged,
    minus,
    missing,
    size,
    union,
    upto,
)

_PAIR = st.tuples(st.integers(0, 40), st.integers(0, 40))
_PAIRS = st.lists(_PAIR, max_size=8)
_SETS = _PAIRS.map(merged)


def _numbers(one: Intervals) -> set[int]:
    return {number for first, after in one for number in range(first, after)}


def _in_form(one: Intervals) -> bool:
    ends = [end for pair in one for end in pair]
    return ends == sorted(set(ends))


@given(_PAIRS)
def test_pairs_are_merged(pairs: list[tuple[int, int]]) -> None:
    found = merged(pairs)
    assert _in_form(found)
    assert _numbers(found) == _numbers(tuple(pairs))
    assert size(found) == len(_numbers(found))
    assert upto(found) == max(_numbers(found), default=-1) + 1


@given(_SETS, _SETS)
def test_two_sets(one: Intervals, other: Intervals) -> None:
    mine, theirs = _numbers(one), _numbers(other)
    for found, expected in (
        (union(one, other), mine | theirs),
        (intersection(one, other), mine & theirs),
        (minus(one, other), mine - theirs),
    ):
        assert _in_form(found)
        assert _numbers(found) == expected
    assert covers(one, other) is (theirs <= mine)


@given(_SETS, st.integers(-2, 42))
def test_one_set(one: Intervals, first: int) -> None:
    numbers = _numbers(one)
    assert has(one, first) is (first in numbers)
    assert _numbers(gaps(one)) == set(range(min(numbers, default=0), upto(one))) - numbers


@given(_SETS, _PAIR)
def test_what_is_missing(one: Intervals, pair: Interval) -> None:
    found = missing(one, *pair)
    assert _in_form(found)
    assert _numbers(found) == _numbers((pair,)) - _numbers(one)


@given(_PAIRS)
def test_a_set_that_grows(pairs: list[Interval]) -> None:
    growing = GrowingIntervals()
    held: set[int] = set()
    for at, pair in enumerate(pairs):
        before = growing.copy()
        found = growing.add(*pair)
        assert _in_form(found)
        assert _numbers(found) == _numbers((pair,)) - held
        assert _numbers(before.intervals) == held
        held |= _numbers((pair,))
        assert growing.intervals == merged(pairs[: at + 1])
        assert _numbers(growing.intervals) == held
        assert len(growing) == len(growing.intervals)


def test_what_comes_in_order_is_one_however_long() -> None:
    growing = GrowingIntervals()
    for start in range(0, 1_000_000, 1000):
        assert growing.add(start, start + 1000) == ((start, start + 1000),)
    assert growing.intervals == ((0, 1_000_000),)


@given(st.lists(_SETS, max_size=4))
def test_many_sets(sets: list[Intervals]) -> None:
    assert _numbers(union(*sets)) == set().union(*map(_numbers, sets))


def test_what_touches_is_one() -> None:
    assert merged([(2, 3), (1, 2), (5, 5)]) == ((1, 3),)
