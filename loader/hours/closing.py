"""What is to be done with hours that are over: called complete, or named as incomplete. Pure.

Rule 1: an hour's small files are merged when it is called complete, in the same run, never later.
Rule 2: an hour that is complete stays so. What is added to it afterwards is late.
Rule 3: past the deadline, an hour that is not complete says what is missing, and says it again
        when that changes; it becomes complete like any other.
Rule 4: an hour without rows is judged like any other: that nothing happened is worth knowing, too.
        Only those of the last two days are looked for, and none before the table's first.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from loader.config import Completeness
from loader.hours.completeness import Complete, Verdict
from loader.manifests import HourState, Manifest
from loader.tables import HOUR_MILLIS, Hour, hour_of

NO_ROWS: Final = HourState(rows=0, files=())
LOOKED_BACK: Final = 48 * HOUR_MILLIS  # for hours without rows


@dataclass(frozen=True, slots=True)
class Closing:
    """What becomes of one hour."""

    hour: Hour
    by: str = ""  # it is complete, and how that was decided
    missing: str = ""  # it is incomplete, and why
    names: tuple[str, ...] = ()  # who is waited for

    @property
    def complete(self) -> bool:
        return not self.missing


@dataclass(frozen=True, slots=True)
class Merge:
    """Files of an hour that become fewer."""

    hour: Hour
    files: tuple[str, ...]
    bytes: int
    files_wanted: int


def open_hours(previous: Manifest | None, now: int) -> tuple[Hour, ...]:
    """Those that are over, and not complete; in their order."""
    hours = {} if previous is None else previous.hours
    known = (hour for hour, state in hours.items() if _is_open(hour, state, now))
    return tuple(sorted((*known, *_without_rows(hours, now))))


def to_close(
    previous: Manifest, verdicts: Mapping[Hour, Verdict], now: int, config: Completeness
) -> tuple[Closing, ...]:
    """What has changed for hours that are open; in their order."""
    found = []
    for hour, verdict in sorted(verdicts.items()):
        state = previous.hours.get(hour, NO_ROWS)
        if not _is_open(hour, state, now):
            continue
        if isinstance(verdict, Complete):
            found.append(Closing(hour, by=verdict.by))
            continue
        past_deadline = now >= hour + HOUR_MILLIS + config.deadline * 1000
        if past_deadline and state.incomplete != verdict.missing:
            found.append(Closing(hour, missing=verdict.missing, names=verdict.names))
    return tuple(found)


def merge_of(
    hour: Hour, files: Collection[str], sizes: Mapping[str, int], config: Completeness
) -> Merge | None:
    """The small ones of an hour's files, if they can become fewer. Sizes are by path."""
    small = tuple(sorted(each for each in files if sizes[each] < config.merge_below))
    total = sum(sizes[each] for each in small)
    wanted = max(1, -(-total // config.merge_to))
    return Merge(hour, small, total, wanted) if wanted < len(small) else None


def _without_rows(hours: Mapping[Hour, HourState], now: int) -> Iterator[Hour]:
    """Of which nothing is known yet."""
    this = hour_of(now)
    first = max(min(hours, default=this), this - LOOKED_BACK)
    return (Hour(each) for each in range(first, this, HOUR_MILLIS) if each not in hours)


def _is_open(hour: Hour, state: HourState, now: int) -> bool:
    return state.complete < 0 and hour + HOUR_MILLIS <= now
