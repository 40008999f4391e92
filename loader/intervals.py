"""Sets of whole numbers as intervals: which events of a source have landed.

A number is in one interval or in none, intervals ascend, and between each two something is missing:
so a set has one spelling, and what a healthy source has landed is a single interval.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from loader.reports import Interval, Intervals, Landed

NOTHING: Final[Intervals] = ()


def union(*sets: Intervals) -> Intervals:
    """What is in any of them. Their intervals may also touch, overlap and stand in any order."""
    found: list[Interval] = []
    for first, last in sorted(each for intervals in sets for each in intervals):
        if found and first <= found[-1][1] + 1:
            if last > found[-1][1]:
                found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return tuple(found)


def subtract(whole: Intervals, taken: Intervals) -> Intervals:
    """What is in the first and not in the second."""
    if not taken:
        return whole
    return tuple(piece for interval in whole for piece in missing(taken, *interval))


def count(intervals: Intervals) -> int:
    """How many numbers are in them."""
    return sum(last - first + 1 for first, last in intervals)


def shortened(intervals: Intervals) -> Landed:
    """The same, with less to write: a number stands for all from 0 on that are below it."""
    return intervals[0][1] + 1 if len(intervals) == 1 and intervals[0][0] == 0 else intervals


def lengthened(landed: Landed) -> Intervals:
    return ((0, landed - 1),) if isinstance(landed, int) else landed


def missing(intervals: Sequence[Interval], first: int, last: int) -> Intervals:
    """What of `first` to `last` is not in them. Takes no longer for many intervals elsewhere."""
    at = bisect_left(intervals, first, key=_last)
    found = []
    while first <= last and at < len(intervals) and intervals[at][0] <= last:
        if first < intervals[at][0]:
            found.append((first, intervals[at][0] - 1))
        first = intervals[at][1] + 1
        at += 1
    if first <= last:
        found.append((first, last))
    return tuple(found)


def _last(interval: Interval) -> int:
    return interval[1]


class GrowingIntervals:
    """Intervals that grow, in their usual form at any time. Cheapest at their end."""

    __slots__ = ("_intervals",)

    def __init__(self) -> None:
        self._intervals: list[Interval] = []

    def __len__(self) -> int:
        return len(self._intervals)

    @property
    def intervals(self) -> Intervals:
        return tuple(self._intervals)

    def copy(self) -> "GrowingIntervals":
        copied = GrowingIntervals()
        copied._intervals = list(self._intervals)
        return copied

    def add(self, first: int, last: int) -> Intervals:
        """Takes `first` to `last` in. Returns what of it was not in before."""
        known = self._intervals
        if not known or first > known[-1][1]:
            if known and first == known[-1][1] + 1:
                known[-1] = (known[-1][0], last)
            else:
                known.append((first, last))
            return ((first, last),)
        new = missing(known, first, last)
        if new:
            start = bisect_left(known, first - 1, key=_last)
            end = start
            while end < len(known) and known[end][0] <= last + 1:
                first, last = min(first, known[end][0]), max(last, known[end][1])
                end += 1
            known[start:end] = [(first, last)]
        return new
