"""Whether a number is in intervals: looked for in each of them."""

from loader.values.reports import ClosedIntervals


def contains(intervals: ClosedIntervals, number: int) -> bool:
    return any(first <= number <= last for first, last in intervals)
