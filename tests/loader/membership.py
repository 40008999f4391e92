"""Whether a number is in intervals: looked for in each of them."""

from loader.reports import Intervals


def contains(intervals: Intervals, number: int) -> bool:
    return any(first <= number <= last for first, last in intervals)
