"""Marks hours with rows that are not what agents have signed: they are incomplete at once, also if
they were complete, and stay so until an audit that knows of it calls them complete, or until they
are rebuilt from batches that are what agents have signed. Pure.

The rows land and stay: most of a batch's events are usually right, and people must see what is
wrong.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from ground.intervals import Interval
from loader.commit.layout import SUCCESS, incomplete_marker, no_marker
from loader.values.manifests import HourState, Marker
from loader.values.tables import HOUR_MILLIS, Hour

_FEW: Final = 3  # reasons that an hour's text names


class AlteredTimes(msgspec.Struct, frozen=True):
    """Spans of time with rows that are not what an agent has signed, and the reason in words."""

    times: tuple[Interval, ...]
    reason: str

    def has(self, hour: Hour) -> bool:
        return self.touches(hour, hour + HOUR_MILLIS - 1)

    def touches(self, from_time: int, to_time: int) -> bool:
        return any(first <= to_time and from_time < end for first, end in self.times)


def with_altered(
    hours: Mapping[Hour, HourState], altered: Iterable[AlteredTimes], now: int
) -> dict[Hour, HourState]:
    """The states of the hours, with those marked that have altered rows."""
    all_altered = list(altered)
    states = dict(hours)
    for hour, state in hours.items() if all_altered else ():
        reasons = [part.reason for part in all_altered if part.has(hour)]
        if reasons and state.rows:
            more = f"; and {len(reasons) - _FEW:,} more" if len(reasons) > _FEW else ""
            words = f"{'; '.join(reasons[:_FEW])}{more}"
            states[hour] = replace(state, complete=-1, altered=words, incomplete=words, at=now)
    return states


def markers_of_altered(
    table: str, before: Mapping[Hour, HourState], after: Mapping[Hour, HourState], run: int
) -> Iterator[Marker]:
    """The markers of hours that a run has marked: `_INCOMPLETE` in place of `_SUCCESS`."""
    for hour, state in sorted(after.items()):
        known = before.get(hour)
        if state.altered and (known is None or known.altered != state.altered):
            if known is not None and known.complete >= 0:
                yield no_marker(table, hour, SUCCESS)
            yield incomplete_marker(table, hour, state, run, ())
