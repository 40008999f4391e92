"""Events that arrived somewhere, by the number that their application gave them. Pure.

Applications number their events 0, 1, 2 and so on. So it can be said of each, not only of their
count, whether it arrived, and whether once.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

NO_NUMBER: Final = -1  # of what arrived and has none
_MOST_SHOWN: Final = 3


class Arrivals(NamedTuple):
    """What arrived, in whatever order."""

    events: int
    distinct: int
    twice: tuple[int, ...]  # numbers that arrived more than once, in ascending order
    missing: tuple[range, ...]  # numbers below `written` that did not, likewise
    unknown: tuple[int, ...]  # numbers that nobody has written

    @property
    def events_missing(self) -> int:
        return sum(map(len, self.missing))

    def faults(self, where: str) -> Iterator[str]:
        """What is not as it should be, in words. `where`: stored, landed."""
        if self.missing:
            yield f"{_events(self.events_missing)} not {where}: {_ranges(self.missing)}"
        if self.twice:
            again = self.events - self.distinct
            numbers = _shown([f"{number:,}" for number in self.twice])
            yield f"{where} more than once: {_numbers(self.twice)} {numbers} ({again:,} too many)"
        if self.unknown:
            numbers = _shown([_number(number) for number in self.unknown])
            yield f"{where}, but never written: {numbers}"


def arrivals(numbers: Iterable[int], written: int) -> Arrivals:
    """Of events that were numbered from 0 up to, and without, `written`."""
    counted = Counter(numbers)
    return Arrivals(
        events=counted.total(),
        distinct=len(counted),
        twice=tuple(sorted(number for number, times in counted.items() if times > 1)),
        missing=tuple(_gaps(sorted(each for each in counted if 0 <= each < written), written)),
        unknown=tuple(sorted(each for each in counted if not 0 <= each < written)),
    )


def _gaps(there: list[int], end: int) -> Iterator[range]:
    due = 0
    for number in [*there, end]:
        if number > due:
            yield range(due, number)
        due = number + 1


def _events(count: int) -> str:
    return "1 event was" if count == 1 else f"{count:,} events were"


def _numbers(numbers: tuple[int, ...]) -> str:
    return "number" if len(numbers) == 1 else "numbers"


def _ranges(ranges: tuple[range, ...]) -> str:
    several = len(ranges) > 1 or len(ranges[0]) > 1
    shown = _shown(
        [f"{each[0]:,}" if len(each) == 1 else f"{each[0]:,} to {each[-1]:,}" for each in ranges]
    )
    return f"{'numbers' if several else 'number'} {shown}"


def _number(number: int) -> str:
    return "an event without number" if number == NO_NUMBER else f"number {number:,}"


def _shown(texts: list[str]) -> str:
    more = len(texts) - _MOST_SHOWN
    return ", ".join(texts[:_MOST_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
