"""Sets of whole numbers (offsets, seqs, bytes, times) as intervals: half-open pairs, ascending,
that neither overlap nor touch. Whatever is returned here is of that form, so equal sets are equal
values. `merged` takes pairs as they come; everything else relies on the form.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise

Interval = tuple[int, int]  # the first, and the one after the last
Intervals = tuple[Interval, ...]


def merged(pairs: Iterable[Interval]) -> Intervals:
    """What lies in any of these pairs, which may come in any order, overlap, or be empty."""
    found: list[Interval] = []
    end = 0
    for first, after in sorted(pairs):
        if after <= first:
            continue
        if found and first <= end:
            if after > end:
                found[-1] = (found[-1][0], after)
                end = after
        else:
            found.append((first, after))
            end = after
    return tuple(found)


def union(*sets: Intervals) -> Intervals:
    """What lies in any of them."""
    some = [each for each in sets if each]
    if len(some) == 1:
        return some[0]
    return merged(pair for each in some for pair in each)


def intersection(one: Intervals, other: Intervals) -> Intervals:
    """What lies in both."""
    if not one or not other:
        return ()
    found: list[Interval] = []
    mine, theirs = _from(one, other[0][0]), _from(other, one[0][0])
    while mine < len(one) and theirs < len(other):
        first = max(one[mine][0], other[theirs][0])
        after = min(one[mine][1], other[theirs][1])
        if first < after:
            found.append((first, after))
        if one[mine][1] <= other[theirs][1]:
            mine += 1
        else:
            theirs += 1
    return tuple(found)


def minus(one: Intervals, other: Intervals) -> Intervals:
    """What lies in one and not in the other."""
    if not other or not one or one == other:
        return () if one == other else one
    found: list[Interval] = []
    at = _from(other, one[0][0])
    for begin, after in one:
        first = begin
        while at < len(other) and other[at][1] <= first:
            at += 1
        look = at
        while look < len(other) and other[look][0] < after:
            if other[look][0] > first:
                found.append((first, other[look][0]))
            first = other[look][1]
            look += 1
        if first < after:
            found.append((first, after))
    return tuple(found)


def missing(one: Sequence[Interval], first: int, after: int) -> Intervals:
    """What of `first` to `after` does not lie in it. Takes no longer for many parts elsewhere."""
    at = bisect_right(one, first, key=_after)
    found = []
    while first < after and at < len(one) and one[at][0] < after:
        if first < one[at][0]:
            found.append((first, one[at][0]))
        first = one[at][1]
        at += 1
    if first < after:
        found.append((first, after))
    return tuple(found)


def covers(one: Intervals, other: Intervals) -> bool:
    """Whether all of the other lies in one."""
    for first, after in other:
        at = bisect_right(one, first, key=_first) - 1
        if at < 0 or one[at][1] < after:
            return False
    return True


def has(one: Intervals, number: int) -> bool:
    """Whether the number lies in it."""
    at = bisect_right(one, number, key=_first) - 1
    return at >= 0 and number < one[at][1]


def size(one: Intervals) -> int:
    """How many numbers lie in it."""
    return sum(after - first for first, after in one)


def upto(one: Intervals) -> int:
    """The number after the greatest in it; 0 if there is none."""
    return one[-1][1] if one else 0


def gaps(one: Intervals) -> Intervals:
    """What lies between its parts."""
    return tuple((before[1], after[0]) for before, after in pairwise(one))


def _from(one: Intervals, number: int) -> int:
    """The place of the first that may have something of what lies from that number on."""
    return max(0, bisect_right(one, number, key=_first) - 1)


def _first(pair: Interval) -> int:
    return pair[0]


def _after(pair: Interval) -> int:
    return pair[1]


class GrowingIntervals:
    """A set that grows, in that form at any time. Cheapest at its end."""

    __slots__ = ("_intervals",)

    def __init__(self) -> None:
        self._intervals: list[Interval] = []

    def __len__(self) -> int:
        """Of how many parts it is."""
        return len(self._intervals)

    @property
    def intervals(self) -> Intervals:
        return tuple(self._intervals)

    def copy(self) -> "GrowingIntervals":
        copied = GrowingIntervals()
        copied._intervals = list(self._intervals)
        return copied

    def add(self, first: int, after: int) -> Intervals:
        """Takes `first` to `after` in. Returns what of it was not in before."""
        known = self._intervals
        if first >= after:
            return ()
        if not known or first >= known[-1][1]:
            if known and first == known[-1][1]:
                known[-1] = (known[-1][0], after)
            else:
                known.append((first, after))
            return ((first, after),)
        new = missing(known, first, after)
        if new:
            start = bisect_left(known, first, key=_after)
            end = start
            while end < len(known) and known[end][0] <= after:
                first, after = min(first, known[end][0]), max(after, known[end][1])
                end += 1
            known[start:end] = [(first, after)]
        return new
