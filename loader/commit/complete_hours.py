"""The complete hours of a table, as ranges in its manifest, and the file that tells readers. Pure.

An hour without rows has neither a folder nor a state in the manifest: it is complete if a range has
it. The ranges also have complete hours with rows, so that a table usually has one range. Readers
find them in `{table}/_complete_hours.json`:

    {"run": 57,
     "complete": [["dt=2026-11-18/hour=05", "dt=2026-11-20/hour=09"]],
     "incomplete": {"dt=2026-11-20/hour=10": "agents on web-1"}}

`complete` has the first and last hour of each range; `incomplete`, what is missing of hours without
rows that are past their deadline.

Rule 1: an hour that is open in the manifest, or became open again, is in no range.
Rule 2: an hour without rows loses its state when it becomes complete. Manifests of earlier builds
        have such states; the next run converts them, and their `_SUCCESS` stays valid.
Rule 3: a range is dropped once it ended more than a year ago, when the states of its hours are gone
        as well.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from ground.intervals import Intervals, has, merged, minus, union
from loader.commit.layout import COMPLETE_HOURS
from loader.commit.old_hours import REMEMBERED_MILLIS, is_empty, trimmed_hours
from loader.values.manifests import HourState, Manifest, Marker
from loader.values.tables import HOUR_MILLIS, Hour, hour_folder

_NOTHING: Final[Mapping[Hour, HourState]] = {}


class HoursAfter(msgspec.Struct, frozen=True):
    """The hours of a table after a run, in the three places that record them."""

    hours: dict[Hour, HourState]
    complete: Intervals
    markers: tuple[Marker, ...]  # the file for readers, if it changes


def hours_after(
    previous: Manifest | None, table: str, hours: Mapping[Hour, HourState], *, run: int, now: int
) -> HoursAfter:
    """Returns what the manifest of this run keeps of these hours."""
    before = () if previous is None else previous.complete
    open_hours = _ranges(hour for hour, state in hours.items() if state.complete < 0)
    closed_hours = _ranges(hour for hour, state in hours.items() if state.complete >= 0)
    complete = tuple(
        (first, after)
        for first, after in minus(union(before, closed_hours), open_hours)
        if now - after <= REMEMBERED_MILLIS
    )
    kept_hours = {
        hour: state
        for hour, state in trimmed_hours(hours, now).items()
        if not (is_empty(state) and has(complete, hour))
    }
    has_changed = (before, _missing(_NOTHING if previous is None else previous.hours)) != (
        complete,
        _missing(hours),
    )
    markers = (_marker(table, complete, hours, run),) if has_changed else ()
    return HoursAfter(kept_hours, complete, markers)


def _ranges(hours: Iterable[Hour]) -> Intervals:
    return merged((hour, hour + HOUR_MILLIS) for hour in hours)


def _missing(hours: Mapping[Hour, HourState]) -> dict[str, str]:
    """What is missing of hours without rows, by the hour's folder."""
    return {
        hour_folder(hour): state.incomplete
        for hour, state in sorted(hours.items())
        if state.incomplete and is_empty(state)
    }


def _marker(table: str, complete: Intervals, hours: Mapping[Hour, HourState], run: int) -> Marker:
    content = {
        "run": run,
        "complete": [
            [hour_folder(Hour(first)), hour_folder(Hour(after - HOUR_MILLIS))]
            for first, after in complete
        ],
        "incomplete": _missing(hours),
    }
    return Marker(path=f"{table}/{COMPLETE_HOURS}", content=json.dumps(content) + "\n")
