"""Decides what to do with past hours: declare them complete (`_SUCCESS`) or incomplete
(`_INCOMPLETE`). Builds the manifest of the run that does so. Pure.

Rule 1: an hour's small files are merged in the run that declares it complete, never later.
Rule 2: a complete hour stays complete, also when it is rebuilt. What is added afterwards is late.
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
from loader.commit.complete_hours import hours_after
from loader.commit.layout import INCOMPLETE, hour_path, incomplete_marker, no_marker, success_marker
from loader.commit.next_state import at_rest
from loader.commit.old_hours import is_empty
from loader.config import CompletenessConfig
from loader.errors import Mismatch
from loader.hours.completeness import Complete, HourVerdict
from loader.values.manifests import VERSION, Added, HourState, Manifest, Marker, RunKind
from loader.values.tables import HOUR_MILLIS, Hour, hour_of

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


class Merge(msgspec.Struct, frozen=True):
    """Files of an hour that are to be merged into fewer files."""

    hour: Hour
    files: tuple[str, ...]
    bytes: int
    files_wanted: int


def open_hours(previous: Manifest | None, now: int) -> tuple[Hour, ...]:
    """Past hours that are not complete, in order."""
    if previous is None:
        return ()
    known_hours = (hour for hour, state in previous.hours.items() if _is_open(hour, state, now))
    return tuple(sorted((*known_hours, *_without_rows(previous, now))))


def complete_hours(manifest: Manifest, hours: Iterable[Hour]) -> tuple[Hour, ...]:
    """Returns those of the given hours that are complete."""
    return tuple(hour for hour in hours if manifest.hours.get(hour, NO_ROWS).complete >= 0)


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


def merge_of(
    hour: Hour, files: Collection[str], sizes: Mapping[str, int], config: CompletenessConfig
) -> Merge | None:
    """The merge of an hour's small files, if it would reduce their number. `sizes` are by path."""
    small_files = tuple(sorted(path for path in files if sizes[path] < config.merge_below))
    total_bytes = sum(sizes[path] for path in small_files)
    file_count = max(1, -(-total_bytes // config.merge_to))
    return (
        Merge(hour, small_files, total_bytes, file_count) if file_count < len(small_files) else None
    )


def _without_rows(previous: Manifest, now: int) -> Iterator[Hour]:
    """Recent hours of which the manifest knows nothing."""
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
            latest.hours[hour],
            files=tuple(files),
            rows=sum(rows[path] for path in files),
            bytes=sum(sizes[path] for path in files),
            whole=max(latest.hours[hour].whole, latest.hours[hour].rows),
        )
        for hour, files in remaining.items()
    }
    return msgspec.structs.replace(latest, hours=latest.hours | hours)


class MergedFile(msgspec.Struct, frozen=True):
    """A file made by a merge. Paths are relative to the root."""

    staged: str
    rows: int
    bytes: int
    suffix: str = ".parquet"


class Merged(msgspec.Struct, frozen=True):
    merge: Merge
    files: tuple[MergedFile, ...]


def close_manifest(
    previous: Manifest,
    closings: Sequence[Closing],
    merged: Sequence[Merged],
    *,
    now: int,
    loader: str,
) -> Manifest:
    """The manifest of the run that closes these hours. Raises Mismatch if a merge has lost or
    gained rows, as far as that is known."""
    run = previous.run + 1
    merged_by_hour = {merged_hour.merge.hour: merged_hour for merged_hour in merged}
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
        if (merged_hour := merged_by_hour.pop(hour, None)) is not None:
            added_files = _added(previous.table, merged_hour, run)
            state = _without_small(previous.table, state, merged_hour, added_files)
            all_added += added_files
            removed_paths += merged_hour.merge.files
        hours[hour] = msgspec.structs.replace(state, complete=run, incomplete="", at=now)
        if state.incomplete:
            markers.append(no_marker(previous.table, hour, INCOMPLETE))
        if not is_empty(state):
            markers.append(success_marker(previous.table, hour, hours[hour], run, closing.by))
    if merged_by_hour:
        raise ValueError(f"merged, but not closed: {sorted(merged_by_hour)}")
    after = hours_after(previous, previous.table, hours, run=run, now=now)
    return Manifest(
        version=VERSION,
        run=run,
        kind=RunKind.CLOSE,
        table=previous.table,
        committed=now,
        loader=loader,
        topics=at_rest(previous.topics),
        adds=tuple(all_added),
        removes=tuple(removed_paths),
        markers=(*markers, *after.markers),
        hours=after.hours,
        complete=after.complete,
        sources=previous.sources,
        schema=previous.schema,
        format=previous.format,
        header=previous.header,
        ledger_seq=previous.ledger_seq + previous.ledger_entries,
    )


def _added(table: str, merged: Merged, run: int) -> list[Added]:
    hour = merged.merge.hour
    return [
        Added(
            staged=file.staged,
            path=f"{hour_path(table, hour)}/part-merged-{index:04}-{run}{file.suffix}",
            hour=hour,
            rows=file.rows,
            bytes=file.bytes,
        )
        for index, file in enumerate(merged.files)
    ]


def _without_small(
    table: str, state: HourState, merged: Merged, added: Sequence[Added]
) -> HourState:
    merged_paths = set(merged.merge.files)
    kept_files = tuple(path for path in state.files if path not in merged_paths)
    rows = sum(file.rows for file in added)
    if len(kept_files) + len(merged_paths) != len(state.files):
        raise Mismatch(
            f"{hour_path(table, merged.merge.hour)}: the merged files are not files of this hour"
        )
    if rows > state.rows or (not kept_files and rows != state.rows):
        raise Mismatch(
            f"{hour_path(table, merged.merge.hour)}: merging {state.rows:,} rows resulted in"
            f" {rows:,}"
        )
    return msgspec.structs.replace(
        state,
        files=(*kept_files, *(file.path for file in added)),
        bytes=state.bytes - merged.merge.bytes + sum(file.bytes for file in added),
    )
