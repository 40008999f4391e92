"""The manifest of a run that closes hours: what it merges, and what their markers say. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from loader.commit.old_hours import faded
from loader.errors import Mismatch
from loader.hours.closing import NO_ROWS, Closing, Merge
from loader.manifests import (
    VERSION,
    Added,
    HourState,
    Kind,
    Manifest,
    Marker,
    PartitionState,
    TopicState,
)
from loader.markers import (
    INCOMPLETE,
    hour_path,
    incomplete_marker,
    no_marker,
    success_marker,
)


@dataclass(frozen=True, slots=True)
class MergedFile:
    """One of the few, where it lies now. Paths are relative to the root."""

    staged: str
    rows: int
    bytes: int
    suffix: str = ".parquet"


@dataclass(frozen=True, slots=True)
class Merged:
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
        kind=Kind.CLOSE,
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


def at_rest(topics: Sequence[TopicState]) -> tuple[TopicState, ...]:
    """The same, of a run that reads nothing."""
    return tuple(
        msgspec.structs.replace(topic, partitions=tuple(map(_at_rest, topic.partitions)))
        for topic in topics
    )


def _at_rest(state: PartitionState) -> PartitionState:
    return msgspec.structs.replace(state, from_offset=-1, skipped=0)


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
