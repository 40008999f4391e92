"""Sets of integers (offsets, seqs, bytes, times) as intervals: half-open pairs, ascending, that
neither overlap nor touch. All results have this form, so equal sets are equal values. `merged`
accepts any pairs; all other functions require the form.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise

Interval = tuple[int, int]  # first, and the number after the last
Intervals = tuple[Interval, ...]


def merged(pairs: Iterable[Interval]) -> Intervals:
    """Returns the union of pairs in any order, which may overlap or be empty."""
    parts: list[Interval] = []
    end = 0
    for first, after in sorted(pairs):
        if after <= first:
            continue
        if parts and first <= end:
            if after > end:
                parts[-1] = (parts[-1][0], after)
                end = after
        else:
            parts.append((first, after))
            end = after
    return tuple(parts)


def union(*sets: Intervals) -> Intervals:
    """Returns the numbers in any of the sets."""
    nonempty = [intervals for intervals in sets if intervals]
    if len(nonempty) == 1:
        return nonempty[0]
    return merged(pair for intervals in nonempty for pair in intervals)


def intersection(left: Intervals, right: Intervals) -> Intervals:
    """Returns the numbers in both sets."""
    if not left or not right:
        return ()
    common_intervals: list[Interval] = []
    left_index, right_index = _from(left, right[0][0]), _from(right, left[0][0])
    while left_index < len(left) and right_index < len(right):
        first = max(left[left_index][0], right[right_index][0])
        after = min(left[left_index][1], right[right_index][1])
        if first < after:
            common_intervals.append((first, after))
        if left[left_index][1] <= right[right_index][1]:
            left_index += 1
        else:
            right_index += 1
    return tuple(common_intervals)


def minus(left: Intervals, right: Intervals) -> Intervals:
    """Returns the numbers in the left set but not in the right one."""
    if not right or not left or left == right:
        return () if left == right else left
    remainder: list[Interval] = []
    index = _from(right, left[0][0])
    for begin, after in left:
        first = begin
        while index < len(right) and right[index][1] <= first:
            index += 1
        overlap_index = index
        while overlap_index < len(right) and right[overlap_index][0] < after:
            if right[overlap_index][0] > first:
                remainder.append((first, right[overlap_index][0]))
            first = right[overlap_index][1]
            overlap_index += 1
        if first < after:
            remainder.append((first, after))
    return tuple(remainder)


def missing(intervals: Sequence[Interval], first: int, after: int) -> Intervals:
    """Returns the numbers from `first` up to, but excluding, `after` that are not in the set. The
    time does not depend on the size of the set outside this range."""
    index = bisect_right(intervals, first, key=_after)
    gaps_found = []
    while first < after and index < len(intervals) and intervals[index][0] < after:
        if first < intervals[index][0]:
            gaps_found.append((first, intervals[index][0]))
        first = intervals[index][1]
        index += 1
    if first < after:
        gaps_found.append((first, after))
    return tuple(gaps_found)


def covers(left: Intervals, right: Intervals) -> bool:
    """Whether the left set includes the right one."""
    for first, after in right:
        index = bisect_right(left, first, key=_first) - 1
        if index < 0 or left[index][1] < after:
            return False
    return True


def has(intervals: Intervals, number: int) -> bool:
    """Whether the number is in the set."""
    index = bisect_right(intervals, number, key=_first) - 1
    return index >= 0 and number < intervals[index][1]


def size(intervals: Intervals) -> int:
    """Returns the number of elements."""
    return sum(after - first for first, after in intervals)


def upto(intervals: Intervals) -> int:
    """The number after the greatest element; 0 if empty."""
    return intervals[-1][1] if intervals else 0


def gaps(intervals: Intervals) -> Intervals:
    """Returns the intervals between the set's parts."""
    return tuple((before[1], after[0]) for before, after in pairwise(intervals))


def _from(intervals: Intervals, number: int) -> int:
    """The index of the first interval that may reach the number or beyond."""
    return max(0, bisect_right(intervals, number, key=_first) - 1)


def _first(pair: Interval) -> int:
    return pair[0]


def _after(pair: Interval) -> int:
    return pair[1]


class GrowingIntervals:
    """A growing set, always in the form above. Cheapest to extend at its end."""

    __slots__ = ("_intervals",)

    def __init__(self) -> None:
        self._intervals: list[Interval] = []

    def __len__(self) -> int:
        """The number of intervals."""
        return len(self._intervals)

    @property
    def intervals(self) -> Intervals:
        return tuple(self._intervals)

    def copy(self) -> "GrowingIntervals":
        copy = GrowingIntervals()
        copy._intervals = list(self._intervals)
        return copy

    def add(self, first: int, after: int) -> Intervals:
        """Adds the numbers from `first` up to, but excluding, `after`; returns those that were not
        in the set before."""
        intervals = self._intervals
        if first >= after:
            return ()
        if not intervals or first >= intervals[-1][1]:
            if intervals and first == intervals[-1][1]:
                intervals[-1] = (intervals[-1][0], after)
            else:
                intervals.append((first, after))
            return ((first, after),)
        new_intervals = missing(intervals, first, after)
        if new_intervals:
            start = bisect_left(intervals, first, key=_after)
            end = start
            while end < len(intervals) and intervals[end][0] <= after:
                first, after = min(first, intervals[end][0]), max(after, intervals[end][1])
                end += 1
            intervals[start:end] = [(first, after)]
        return new_intervals
