"""The windows of a picture as places on an axis: which of them a stretch of time touches.

Stretches of time are half-open; one without length is the moment it begins.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from audit.picture import Window


class Axis:
    """Windows by number, in ascending order; none overlaps another."""

    def __init__(self, windows: Sequence[Window]) -> None:
        self._starts = [each.start for each in windows]
        self._ends = [each.start + each.length for each in windows]

    def touched(self, from_time: int, to_time: int) -> range:
        """Those that have something in common with this time."""
        first = bisect_right(self._ends, from_time)
        return range(first, bisect_left(self._starts, max(to_time, from_time + 1), lo=first))

    def within(self, from_time: int, to_time: int) -> bool:
        """Whether any is touched, when the time is known; what is not known may be anywhere."""
        return from_time < 0 or bool(self.touched(from_time, to_time))
