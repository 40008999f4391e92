"""Decides what to do with past hours: declare them complete (`_SUCCESS`) or incomplete
(`_INCOMPLETE`). Builds the manifest of the run that does so. Pure.

Rule 1: an hour's small files are merged in the run that declares it complete, and files without
        the table's columns get them: a complete hour has one schema.
Rule 2: a complete hour stays complete, also when it is rebuilt. What is added afterwards is late.
        If that has other columns than the hour's files, the hour is open until it is closed again.
Rule 3: after the deadline, an incomplete hour gets a marker that says what is missing, and a new
        one when that changes; it becomes complete like any other.
Rule 4: an hour without rows is judged like any other, since it is worth knowing that nothing
        happened. It gets no folder and no marker: the manifest and one file of the table name the
        complete hours (commit/complete_hours.py). Only the last two days are considered, and no
        hour before the table's first.
Rule 5: files that were deleted, by a user's retention or by mistake, no longer belong to the hour.
        A manifest has the rows of an hour, but not of each file: so the rows of the remaining files
        are counted again.
Rule 6: an hour of which a rebuild read fewer events than it had rows is incomplete at once, and
        stays so until an audit that also judges its files calls it complete, or until another
        rebuild reads as many.
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from ground.intervals import has
from loader.commit.layout import INCOMPLETE, incomplete_marker, no_marker, success_marker
from loader.commit.next_state import manifest_without_reading, next_run
from loader.commit.old_hours import is_empty
from loader.commit.rewrites import replaced
from loader.config import CompletenessConfig
from loader.hours.completeness import Complete, HourVerdict
from loader.values.manifests import Added, HourState, Manifest, Marker, RunKind
from loader.values.rewrites import Rewritten
from loader.values.tables import HOUR_MILLIS, UNKNOWN_DIGEST, Hour, hour_of

NO_ROWS: Final = HourState(rows=0, files=())
LOOKED_BACK: Final = 48 * HOUR_MILLIS  # for hours without rows


class Closing(msgspec.Struct, frozen=True):
    """The decision about one hour."""

    hour: Hour
    by: str = ""  # how completeness was decided, if it is complete
    missing: str = ""  # why it is incomplete, if it is
    names: tuple[str, ...] = ()  # the hosts that are waited for

    @property
    def complete(self) -> bool:
        return not self.missing


def open_hours(previous: Manifest | None, now: int) -> tuple[Hour, ...]:
    """Past hours that are not complete, in order."""
    if previous is None:
        return ()
    known_hours = (hour for hour, state in previous.hours.items() if _is_open(hour, state, now))
    return tuple(sorted((*known_hours, *_without_rows(previous, now))))


def opened_hours(before: Manifest | None, after: Manifest) -> tuple[Hour, ...]:
    """The hours that were complete before a run, and are not any more. The manifest before it may
    have forgotten them; then they have late rows."""
    hours_before = {} if before is None else before.hours
    return tuple(
        hour
        for hour, state in after.hours.items()
        if state.complete < 0
        and (
            hours_before.get(hour, NO_ROWS).complete >= 0
            or (state.late_rows > 0 and state.changed == after.run)
        )
    )


def to_close(
    previous: Manifest, verdicts: Mapping[Hour, HourVerdict], now: int, config: CompletenessConfig
) -> tuple[Closing, ...]:
    """Returns the decisions that change open hours, in the order of the hours."""
    closings = []
    for hour, verdict in sorted(verdicts.items()):
        state = previous.hours.get(hour, NO_ROWS)
        if not _is_open(hour, state, now):
            continue
        if isinstance(verdict, Complete):
            closings.append(Closing(hour, by=verdict.by))
            continue
        is_past_deadline = now >= hour + HOUR_MILLIS + config.deadline * 1000
        if is_past_deadline and state.incomplete != verdict.missing:
            closings.append(Closing(hour, missing=verdict.missing, names=verdict.names))
    return tuple(closings)


def _without_rows(previous: Manifest, now: int) -> Iterator[Hour]:
    """Recent hours that the manifest does not know."""
    current_hour = hour_of(now)
    known_since = min((*previous.hours, *(first for first, _ in previous.complete)), default=now)
    first_hour = max(hour_of(known_since), current_hour - LOOKED_BACK)
    return (
        Hour(hour)
        for hour in range(first_hour, current_hour, HOUR_MILLIS)
        if hour not in previous.hours and not has(previous.complete, hour)
    )


def _is_open(hour: Hour, state: HourState, now: int) -> bool:
    return state.complete < 0 and hour + HOUR_MILLIS <= now


def gone_files(
    latest: Manifest, hours: Iterable[Hour], present: Container[str]
) -> dict[Hour, list[str]]:
    """The deleted files by hour, for those of the given hours that have any."""
    gone_by_hour = {
        hour: [path for path in latest.hours[hour].files if path not in present] for hour in hours
    }
    return {hour: files for hour, files in gone_by_hour.items() if files}


def files_left(
    latest: Manifest, deleted: Mapping[Hour, Sequence[str]]
) -> dict[Hour, tuple[str, ...]]:
    """The remaining files by hour, for hours with deleted files."""
    return {
        hour: tuple(path for path in latest.hours[hour].files if path not in set(files))
        for hour, files in deleted.items()
    }


def with_remaining(
    latest: Manifest,
    remaining: Mapping[Hour, Sequence[str]],
    sizes: Mapping[str, int],
    rows: Mapping[str, int],
) -> Manifest:
    """The manifest, with only these files in these hours. `sizes` and `rows` are by path."""
    hours = {
        hour: msgspec.structs.replace(
            latest.hours[hour].with_files(
                {
                    path: latest.hours[hour].digest_by_file.get(path, UNKNOWN_DIGEST)
                    for path in files
                }
            ),
            rows=sum(rows[path] for path in files),
            bytes=sum(sizes[path] for path in files),
            whole=max(latest.hours[hour].whole, latest.hours[hour].rows),
        )
        for hour, files in remaining.items()
    }
    return msgspec.structs.replace(latest, hours=latest.hours | hours)


def close_manifest(
    previous: Manifest,
    closings: Sequence[Closing],
    rewritten: Sequence[Rewritten],
    *,
    uniform: Collection[Hour] = (),
    now: int,
    loader: str,
) -> Manifest:
    """The manifest of the run that closes these hours. All files of the hours in `uniform` have the
    table's columns from now on. Raises Mismatch if a rewrite has lost or gained rows, as far as
    that is known."""
    run = next_run(previous)
    rewritten_by_hour = {part.rewrite.hour: part for part in rewritten}
    hours = dict(previous.hours)
    all_added: list[Added] = []
    removed_paths: list[str] = []
    markers: list[Marker] = []
    for closing in closings:
        hour, state = closing.hour, hours.get(closing.hour, NO_ROWS)
        if not closing.complete:
            hours[hour] = msgspec.structs.replace(state, incomplete=closing.missing)
            if not is_empty(state):
                names = closing.names
                markers.append(incomplete_marker(previous.table, hour, hours[hour], run, names))
            continue
        if (hour_rewritten := rewritten_by_hour.pop(hour, None)) is not None:
            state, added_files = replaced(previous.table, state, hour_rewritten, run)
            all_added += added_files
            removed_paths += hour_rewritten.rewrite.files
        if hour in uniform:
            state = msgspec.structs.replace(state, schema_number=previous.schema_number)
        hours[hour] = msgspec.structs.replace(state, complete=run, incomplete="", at=now)
        if state.incomplete:
            markers.append(no_marker(previous.table, hour, INCOMPLETE))
        if not is_empty(state):
            markers.append(success_marker(previous.table, hour, hours[hour], run, closing.by))
    if rewritten_by_hour:
        raise ValueError(f"rewritten, but not closed: {sorted(rewritten_by_hour)}")
    return manifest_without_reading(
        previous,
        hours,
        kind=RunKind.CLOSE,
        adds=all_added,
        removes=removed_paths,
        markers=markers,
        now=now,
        loader=loader,
    )
