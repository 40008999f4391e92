"""What is to be done with hours that are over: called complete, or named as incomplete; and the
manifest of the run that does it. Pure.

Rule 1: an hour's small files are merged when it is called complete, in the same run, never later.
Rule 2: an hour that is complete stays so. What is added to it afterwards is late.
Rule 3: past the deadline, an hour that is not complete says what is missing, and says it again
        when that changes; it becomes complete like any other.
Rule 4: an hour without rows is judged like any other: that nothing happened is worth knowing, too.
        Only those of the last two days are looked for, and none before the table's first.
Rule 5: files that somebody has taken away, by retention of their own or by mistake, are the hour's
        no more. A manifest knows how many rows an hour has, and not which file has how many of
        them: so those that are left are counted anew.
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from loader.commit.layout import (
    INCOMPLETE,
    hour_path,
    incomplete_marker,
    no_marker,
    success_marker,
)
from loader.commit.next_state import at_rest
from loader.commit.old_hours import faded
from loader.config import CompletenessConfig
from loader.errors import Mismatch
from loader.hours.completeness import Complete, HourVerdict
from loader.manifests import (
    VERSION,
    Added,
    HourState,
    Manifest,
    Marker,
    RunKind,
)
from loader.tables import HOUR_MILLIS, Hour, hour_of

NO_ROWS: Final = HourState(rows=0, files=())
LOOKED_BACK: Final = 48 * HOUR_MILLIS  # for hours without rows


class Closing(msgspec.Struct, frozen=True):
    """What becomes of one hour."""

    hour: Hour
    by: str = ""  # it is complete, and how that was decided
    missing: str = ""  # it is incomplete, and why
    names: tuple[str, ...] = ()  # who is waited for

    @property
    def complete(self) -> bool:
        return not self.missing


class Merge(msgspec.Struct, frozen=True):
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
    previous: Manifest, verdicts: Mapping[Hour, HourVerdict], now: int, config: CompletenessConfig
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
    hour: Hour, files: Collection[str], sizes: Mapping[str, int], config: CompletenessConfig
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


def gone_files(
    latest: Manifest, hours: Iterable[Hour], there: Container[str]
) -> dict[Hour, list[str]]:
    """What is not there of these hours; nothing of those that are whole."""
    found = {
        hour: [path for path in latest.hours[hour].files if path not in there] for hour in hours
    }
    return {hour: files for hour, files in found.items() if files}


def files_left(latest: Manifest, gone: Mapping[Hour, Sequence[str]]) -> dict[Hour, tuple[str, ...]]:
    """Of the hours that are not whole."""
    return {
        hour: tuple(path for path in latest.hours[hour].files if path not in set(files))
        for hour, files in gone.items()
    }


def with_remaining(
    latest: Manifest,
    left: Mapping[Hour, Sequence[str]],
    sizes: Mapping[str, int],
    rows: Mapping[str, int],
) -> Manifest:
    """With hours that have only these files, whose sizes and rows are by path."""
    hours = {
        hour: msgspec.structs.replace(
            latest.hours[hour],
            files=tuple(files),
            rows=sum(rows[path] for path in files),
            bytes=sum(sizes[path] for path in files),
        )
        for hour, files in left.items()
    }
    return msgspec.structs.replace(latest, hours=latest.hours | hours)


class MergedFile(msgspec.Struct, frozen=True):
    """One of the few, where it lies now. Paths are relative to the root."""

    staged: str
    rows: int
    bytes: int
    suffix: str = ".parquet"


class Merged(msgspec.Struct, frozen=True):
    """A merge that was done."""

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
    """What follows on `previous`. Raises Mismatch if a merge has lost or gained rows, as far as
    that can be told."""
    run = previous.run + 1
    by_hour = {each.merge.hour: each for each in merged}
    hours = dict(previous.hours)
    adds: list[Added] = []
    removes: list[str] = []
    markers: list[Marker] = []
    for closing in closings:
        hour, state = closing.hour, hours.get(closing.hour, NO_ROWS)
        if not closing.complete:
            hours[hour] = msgspec.structs.replace(state, incomplete=closing.missing)
            markers.append(incomplete_marker(previous.table, hour, hours[hour], run, closing.names))
            continue
        if (mine := by_hour.pop(hour, None)) is not None:
            added = _added(previous.table, mine, run)
            state = _without_small(previous.table, state, mine, added)
            adds += added
            removes += mine.merge.files
        hours[hour] = msgspec.structs.replace(state, complete=run, incomplete="", at=now)
        if state.incomplete:
            markers.append(no_marker(previous.table, hour, INCOMPLETE))
        markers.append(success_marker(previous.table, hour, hours[hour], run, closing.by))
    if by_hour:
        raise ValueError(f"merged, but not closed: {sorted(by_hour)}")
    return Manifest(
        version=VERSION,
        run=run,
        kind=RunKind.CLOSE,
        table=previous.table,
        committed=now,
        loader=loader,
        topics=at_rest(previous.topics),
        adds=tuple(adds),
        removes=tuple(removes),
        markers=tuple(markers),
        hours=faded(hours, now),
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
            path=f"{hour_path(table, hour)}/part-merged-{number:04}-{run}{file.suffix}",
            hour=hour,
            rows=file.rows,
            bytes=file.bytes,
        )
        for number, file in enumerate(merged.files)
    ]


def _without_small(
    table: str, state: HourState, merged: Merged, added: Sequence[Added]
) -> HourState:
    gone = set(merged.merge.files)
    kept = tuple(path for path in state.files if path not in gone)
    rows = sum(each.rows for each in added)
    if len(kept) + len(gone) != len(state.files):
        raise Mismatch(f"{hour_path(table, merged.merge.hour)}: other files than were merged")
    if rows > state.rows or (not kept and rows != state.rows):
        raise Mismatch(
            f"{hour_path(table, merged.merge.hour)}: of {state.rows:,} rows"
            f" {rows:,} were left by merging its files"
        )
    return msgspec.structs.replace(
        state,
        files=(*kept, *(each.path for each in added)),
        bytes=state.bytes - merged.merge.bytes + sum(each.bytes for each in added),
    )
