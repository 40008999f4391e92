"""Builds the manifest of a load or a rebuild from the staged reports. Pure.

The manifest of a load is the previous one plus what the reports add: files, hours, offsets, and
the landed events of each source.

A rebuild replaces hours with what the brokers have of them: all files of an hour go, and the newly
read ones take their place. The hour is open again, so its markers go first, and a job that waits
for `_SUCCESS` never reads a half-replaced hour. The next run closes it like any other, and merges
its files; unless fewer events were read than it had rows: then it is marked as incomplete, and the
replaced files are kept. Offsets and landed sources stay as they are. Dead letters are written
again; those of earlier runs stay.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from loader.commit.accounts import accounts_of, by_log, is_complete, passages
from loader.commit.altered_hours import AlteredTimes, markers_of_altered, with_altered
from loader.commit.complete_hours import hours_after
from loader.commit.layout import (
    CERTIFICATE,
    DAMAGED,
    DEAD,
    INCOMPLETE,
    LATE,
    SUCCESS,
    hour_path,
    incomplete_marker,
    late_marker,
    no_marker,
    part_path,
    replaced_folder,
    success_marker,
)
from loader.commit.old_hours import is_empty
from loader.commit.sources import after_run
from loader.commit.staging import Staged, StagedFile, check
from loader.decoding.decoded import COLLISION
from loader.errors import GapError, Mismatch, NothingLeft, TooManyDead, TooManyDuplicates
from loader.landing.pieces import FileKind
from loader.planning.plan import Plan
from loader.planning.rebuild import check_removed
from loader.values.manifests import (
    FIRST_RUN,
    VERSION,
    Added,
    HourState,
    Manifest,
    Marker,
    PartitionState,
    Passage,
    RunKind,
    TopicState,
)
from loader.values.replaced_rows import PartitionRows
from loader.values.reports import SliceReport
from loader.values.rewrites import RewriteReason
from loader.values.tables import Hour, Slice, hour_of

FEW_DUPLICATES: Final = 100  # fewer are always accepted


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """The loader that commits a run, the time, and the limits that apply."""

    now: int  # milliseconds
    loader: str
    schema: str  # all columns that the table ever had, as Spark's JSON
    schema_number: int
    dead_share: float
    few_dead: int
    duplicate_share: float
    forget_after: int  # milliseconds after which a source is forgotten
    altered: tuple[AlteredTimes, ...] = ()  # where rows are not what agents have signed


def next_run(previous: Manifest | None) -> int:
    return FIRST_RUN if previous is None else previous.run + 1


def load_manifest(
    previous: Manifest | None,
    plan: Plan,
    staged: Staged,
    table: str,
    terms: Terms,
) -> Manifest:
    """The manifest of a load; `ledger_entries` is still to be filled in.

    The staged files must have been verified, and rows of mixed hours divided. Raises Mismatch if
    they are not what was planned, TooManyDead, and TooManyDuplicates.
    """
    check(plan.slices, staged)
    reports = [staged.reports[piece.number] for piece in plan.slices]
    check_dead(table, reports, terms)
    check_duplicates(table, reports, terms)
    run, now = next_run(previous), terms.now
    previous_hours = {} if previous is None else previous.hours
    added_files = [*added(plan.slices, staged, table=table, run=run, now=now)]
    visible_files = [file for file in added_files if file.path.startswith(f"{table}/")]
    hours = _hours(previous_hours, visible_files, run, terms)
    hours = with_altered(hours, terms.altered, now)
    after = hours_after(previous, table, hours, run=run, now=now)
    return Manifest(
        version=VERSION,
        run=run,
        kind=RunKind.LOAD,
        table=table,
        committed=now,
        loader=terms.loader,
        topics=topics_after(plan, staged.reports),
        adds=tuple(added_files),
        markers=(
            *_late_markers(table, run, visible_files, previous_hours, hours),
            *markers_of_altered(table, previous_hours, hours, run),
            *after.markers,
        ),
        passages=passages(plan.slices, staged.reports, staged.sources, previous_hours),
        dead=dict(_total(report.dead for report in reports)),
        duplicates=sum(report.duplicates for report in reports),
        hours=after.hours,
        complete=after.complete,
        sources=after_run(
            () if previous is None else previous.sources,
            staged.sources,
            now=now,
            forget=terms.forget_after,
        ),
        schema=terms.schema,
        schema_number=terms.schema_number,
        ledger_seq=0 if previous is None else previous.ledger_seq + previous.ledger_entries,
        newest_certificate=None if previous is None else previous.newest_certificate,
    )


def added(
    slices: Iterable[Slice], staged: Staged, *, table: str, run: int, now: int
) -> Iterable[Added]:
    """All staged files with their final paths, in the order of the slices, and by hour within a
    slice. Dead letters go to the hour in which they were found."""
    files: dict[int, list[StagedFile]] = defaultdict(list)
    for file in staged.files:
        files[file.slice].append(file)
    for piece in slices:
        report = staged.reports[piece.number]
        name_counts: Counter[str] = Counter()
        for file in sorted(files[piece.number], key=lambda file: (file.hour or 0, file.path)):
            is_dead = file.kind is FileKind.DEAD
            hour = hour_of(now) if file.hour is None else file.hour
            name = part_path(
                f"{DEAD}/{piece.topic}" if is_dead else table,
                hour,
                cluster=piece.cluster,
                partition=piece.partition,
                first=piece.first,
                end=report.next_offset,
                run=run,
            )
            name_counts[name] += 1
            number_suffix = f"-{name_counts[name]}" if name_counts[name] > 1 else ""
            yield Added(
                staged=file.path,
                path=f"{name}{number_suffix}{file.suffix}",
                hour=hour,
                rows=file.rows,
                bytes=file.bytes,
                digest=file.digest,
                cluster=piece.cluster,
                topic=piece.topic,
                partition=piece.partition,
                first=piece.first,
                next_offset=report.next_offset,
            )


def check_dead(table: str, reports: Sequence[SliceReport], terms: Terms) -> None:
    """Checks the share of dead records, unless there are fewer than `few_dead`. Events that lost a
    collision could be decoded, and do not count. Raises TooManyDead."""
    dead_count = sum(report.dead_count - report.dead.get(COLLISION, 0) for report in reports)
    records = dead_count + sum(report.row_count + report.duplicates for report in reports)
    if dead_count < terms.few_dead or dead_count <= terms.dead_share * records:
        return
    reasons = _total(report.dead for report in reports)
    del reasons[COLLISION]
    reason, _ = reasons.most_common(1)[0]
    example = next(report for report in reports if reason in report.dead)
    raise TooManyDead(
        f"table {table}: {dead_count:,} of {records:,} records cannot be decoded, more than"
        f" `dead_share: {terms.dead_share}` allows; most frequent reason: {reason} (as in"
        f" {example.topic}-{example.partition}, offsets {example.first} to"
        f" {example.next_offset - 1}); nothing was committed"
    )


def check_duplicates(table: str, reports: Sequence[SliceReport], terms: Terms) -> None:
    """Checks the share of duplicates, since a producer that numbers all its events alike would lose
    them. Raises TooManyDuplicates."""
    duplicates = sum(report.duplicates + report.dead.get(COLLISION, 0) for report in reports)
    records = sum(report.duplicates + report.row_count + report.dead_count for report in reports)
    if duplicates < FEW_DUPLICATES or duplicates <= terms.duplicate_share * records:
        return
    example = max(reports, key=lambda report: report.duplicates)
    raise TooManyDuplicates(
        f"table {table}: {duplicates:,} of {records:,} records have a source and seq that landed"
        f" before, more than `duplicate_share: {terms.duplicate_share}` allows; most frequent:"
        f" source {example.repeated} (as in {example.topic}-{example.partition}, offsets"
        f" {example.first} to {example.next_offset - 1}); nothing was committed."
        " Events without numbers must have an empty source; if the log has events twice:"
        " --set duplicate_share=1"
    )


def topics_after(plan: Plan, reports: Mapping[int, SliceReport]) -> tuple[TopicState, ...]:
    """The state of all topics after the run."""
    slices_by_log = by_log(plan.slices)

    def partition_after(topic: TopicState, before: PartitionState) -> PartitionState:
        pieces = slices_by_log.get((topic.cluster, topic.topic, before.partition))
        if not pieces:
            return before
        slice_reports = [reports[piece.number] for piece in pieces]
        newest_report = max(slice_reports, key=lambda report: report.next_offset)
        epochs = [report.leader_epoch for report in slice_reports if report.leader_epoch >= 0]
        batches = [report.last for report in slice_reports if report.last is not None]
        given_up_count = sum(account.given_up for account in accounts_of(pieces, reports))
        return msgspec.structs.replace(
            before,
            next_offset=newest_report.next_offset,
            leader_epoch=max(epochs, default=before.leader_epoch),
            skipped=before.skipped + given_up_count,
            last=max(batches, key=lambda batch: batch.next_offset, default=before.last),
        )

    return tuple(
        msgspec.structs.replace(
            topic,
            partitions=tuple(
                partition_after(topic, old_partition) for old_partition in topic.partitions
            ),
        )
        for topic in plan.topics
    )


def at_rest(topics: Sequence[TopicState]) -> tuple[TopicState, ...]:
    """The unchanged state of topics, for a run that reads nothing."""
    return tuple(
        msgspec.structs.replace(topic, partitions=tuple(map(_partition_at_rest, topic.partitions)))
        for topic in topics
    )


def manifest_without_reading(
    previous: Manifest,
    hours: Mapping[Hour, HourState],
    *,
    kind: RunKind,
    adds: Sequence[Added],
    removes: Iterable[str],
    markers: Sequence[Marker],
    now: int,
    loader: str,
    reason: RewriteReason | None = None,
) -> Manifest:
    """The manifest of a run that reads nothing: what it knows of topics and sources stays."""
    run = next_run(previous)
    after = hours_after(previous, previous.table, hours, run=run, now=now)
    return Manifest(
        version=VERSION,
        run=run,
        kind=kind,
        table=previous.table,
        committed=now,
        loader=loader,
        topics=at_rest(previous.topics),
        adds=tuple(adds),
        removes=tuple(removes),
        markers=(*markers, *after.markers),
        hours=after.hours,
        complete=after.complete,
        sources=previous.sources,
        schema=previous.schema,
        format=previous.format,
        header=previous.header,
        ledger_seq=previous.ledger_seq + previous.ledger_entries,
        schema_number=previous.schema_number,
        reason=reason,
        newest_certificate=previous.newest_certificate,
    )


def _partition_at_rest(state: PartitionState) -> PartitionState:
    return msgspec.structs.replace(state, from_offset=-1, skipped=0)


def _hours(
    before: Mapping[Hour, HourState], adds: Sequence[Added], run: int, terms: Terms
) -> dict[Hour, HourState]:
    """The hours after these files. A complete hour whose files may have other columns is open: it
    is closed again once it has one schema."""
    files_by_hour: dict[Hour, list[Added]] = defaultdict(list)
    for file in adds:
        files_by_hour[file.hour].append(file)
    hours = dict(before)
    for hour, files in files_by_hour.items():
        state = before.get(hour, HourState(rows=0, files=()))
        rows = sum(file.rows for file in files)
        is_first = not (state.files or state.unlisted)
        is_uniform = is_first or state.schema_number == terms.schema_number
        new_digests = {file.path: file.digest for file in files}
        hours[hour] = msgspec.structs.replace(
            state.with_files(state.digest_by_file | new_digests),
            rows=state.rows + rows,
            bytes=state.bytes + sum(file.bytes for file in files),
            changed=run,
            complete=state.complete if is_uniform else -1,
            late_rows=state.late_rows + (rows if is_complete(state) else 0),
            at=terms.now,
            schema_number=terms.schema_number if is_uniform else 0,
            # Without rows it had no marker that said so: the next closing writes one.
            incomplete="" if is_empty(state) else state.incomplete,
        )
    return hours


def _late_markers(
    table: str,
    run: int,
    adds: Sequence[Added],
    before: Mapping[Hour, HourState],
    after: Mapping[Hour, HourState],
) -> Iterable[Marker]:
    for hour in sorted({file.hour for file in adds}):
        if is_complete(before.get(hour)):
            files = [file.path for file in adds if file.hour == hour]
            rows = sum(file.rows for file in adds if file.hour == hour)
            yield late_marker(table, hour, run, rows, files)
            if is_complete(after[hour]):
                yield success_marker(table, hour, after[hour], run)
            else:
                yield no_marker(table, hour, SUCCESS)


def _total(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total_counts: Counter[str] = Counter()
    for part in counts:
        total_counts.update(part)
    return total_counts


def rebuild_manifest(
    previous: Manifest,
    plan: Plan,
    staged: Staged,
    hours: Collection[Hour],
    terms: Terms,
    *,
    markers: Mapping[Hour, Sequence[str]],
    accept_gap: bool,
    remove_rows: int,
) -> Manifest:
    """The manifest of a rebuild; `ledger_entries` is still to be filled in.

    `markers` are the names of the markers beside the rows of each hour. The staged files must have
    been verified. Raises Mismatch if they are not what was planned, TooManyDead, TooManyDuplicates,
    RowsLost if more rows than `remove_rows` would be removed that the brokers no longer have, and
    GapError if an hour would have fewer rows than before, unless that is accepted; an hour is never
    emptied.
    """
    check(plan.slices, staged)
    reports = [staged.reports[piece.number] for piece in plan.slices]
    _check_hours(previous.table, reports, hours)
    check_dead(previous.table, reports, terms)
    check_duplicates(previous.table, reports, terms)
    new_passages = passages(plan.slices, staged.reports, staged.sources, {})
    lacking = _lacking(previous, new_passages, hours, plan.replaced)
    reason = _not_all_came_back(previous.table, lacking) if lacking else ""
    check_removed(sum(lack.removed for lack in lacking.values()), remove_rows, reason)
    if lacking and not accept_gap:
        raise GapError(f"{reason}; nothing was replaced. To rebuild it from those: --accept-gap")
    _check_none_is_emptied(previous, reports, hours)
    run, now = next_run(previous), terms.now
    added_files = tuple(added(plan.slices, staged, table=previous.table, run=run, now=now))
    states = _hours_rebuilt(previous, added_files, hours, lacking, terms)
    states |= with_altered(
        {hour: states[hour] for hour in hours if hour in states}, terms.altered, now
    )
    after = hours_after(previous, previous.table, states, run=run, now=now)
    incomplete = [
        incomplete_marker(previous.table, hour, states[hour], run, ())
        for hour in sorted(hours)
        if hour in states and states[hour].lack
    ]
    replaced_markers = {marker.path for marker in incomplete}
    gone = [
        marker
        for marker in _markers_gone(previous.table, hours, markers)
        if marker.path not in replaced_markers
    ]
    return Manifest(
        version=VERSION,
        run=run,
        kind=RunKind.REBUILD,
        table=previous.table,
        committed=now,
        loader=terms.loader,
        topics=at_rest(previous.topics),
        adds=added_files,
        removes=tuple(_replaced(previous, hours)),
        kept_in=replaced_folder(previous.table, run) if lacking else "",
        markers=(*gone, *incomplete, *after.markers),
        passages=new_passages,
        rebuilt=tuple(sorted(hours)),
        dead=dict(_total(report.dead for report in reports)),
        duplicates=sum(report.duplicates for report in reports),
        hours=after.hours,
        complete=after.complete,
        sources=after_run(previous.sources, staged.sources, now=now, forget=terms.forget_after),
        schema=terms.schema,
        schema_number=terms.schema_number,
        ledger_seq=previous.ledger_seq + previous.ledger_entries,
        newest_certificate=previous.newest_certificate,
    )


def _check_hours(table: str, reports: Sequence[SliceReport], hours: Collection[Hour]) -> None:
    for report in reports:
        unexpected_hours = report.rows.keys() - set(hours)
        if unexpected_hours:
            raise Mismatch(
                f"rows of {hour_path(table, min(unexpected_hours))} were written, which is not"
                " being rebuilt"
            )


class _Lack(msgspec.Struct, frozen=True):
    """An hour of which fewer events were read than it had rows."""

    had: int
    events: int
    removed: int  # rows in its files that the brokers no longer have


def _lacking(
    previous: Manifest,
    read: Sequence[Passage],
    hours: Collection[Hour],
    replaced: Sequence[PartitionRows],
) -> dict[Hour, _Lack]:
    """The hours that lack events. Rows, duplicates, and records that cannot be decoded any more
    count as read, unless rows are known to be gone by their offsets; earlier rebuilds may have
    lacked some, too."""
    events: Counter[Hour] = Counter()
    for window in (window for passage in read for window in passage.windows):
        events[hour_of(window.start)] += window.rows + window.duplicates + window.dead
    states = {hour: previous.hours[hour] for hour in hours if hour in previous.hours}
    had = {hour: max(state.rows, state.whole) for hour, state in states.items()}
    hour_of_file = {path: hour for hour, state in states.items() for path in state.files}
    replaced_by_hour = defaultdict[Hour, list[PartitionRows]](list)
    for part in replaced:
        replaced_by_hour[hour_of_file[part.path]].append(part)
    lacking = {}
    for hour, rows in had.items():
        parts = replaced_by_hour[hour]
        gone_rows = sum(part.gone for part in parts)
        present_events = min(events[hour], rows - gone_rows)
        if present_events < rows:
            removed_rows = max(gone_rows, sum(part.rows for part in parts) - events[hour])
            lacking[hour] = _Lack(rows, present_events, removed_rows)
    return lacking


def _not_all_came_back(table: str, lacking: Mapping[Hour, _Lack]) -> str:
    hour, lack = min(lacking.items())
    return (
        f"{hour_path(table, hour)} had {lack.had:,} rows, but the brokers have only"
        f" {lack.events:,} of its events"
    )


def _check_none_is_emptied(
    previous: Manifest, reports: Sequence[SliceReport], hours: Collection[Hour]
) -> None:
    hours_with_rows = {hour for report in reports for hour, rows in report.rows.items() if rows}
    emptied_hours = [
        hour_path(previous.table, hour)
        for hour in sorted(hours)
        if hour not in hours_with_rows and hour in previous.hours and previous.hours[hour].rows
    ]
    if emptied_hours:
        raise NothingLeft(
            f"{', '.join(emptied_hours)}: none of the rows could be read again from the brokers;"
            " nothing was replaced"
        )


def _replaced(previous: Manifest, hours: Collection[Hour]) -> Iterator[str]:
    for hour in sorted(hours):
        if hour in previous.hours:
            yield from previous.hours[hour].files


def _markers_gone(
    table: str, hours: Collection[Hour], present: Mapping[Hour, Sequence[str]]
) -> Iterator[Marker]:
    for hour in sorted(hours):
        for name in sorted(present.get(hour, ())):
            if name in {SUCCESS, DAMAGED, INCOMPLETE, CERTIFICATE} or name.startswith(LATE):
                yield no_marker(table, hour, name)


def _hours_rebuilt(
    previous: Manifest,
    adds: Sequence[Added],
    rebuilt: Collection[Hour],
    lacking: Mapping[Hour, _Lack],
    terms: Terms,
) -> dict[Hour, HourState]:
    """The hours after a rebuild. One without rows is still known, and is to be closed."""
    files_by_hour: defaultdict[Hour, list[Added]] = defaultdict(list)
    for file in adds:
        if not file.path.startswith(f"{DEAD}/"):
            files_by_hour[file.hour].append(file)
    run = next_run(previous)
    hours = {
        hour: _emptied(state, run, terms.now) if hour in rebuilt else state
        for hour, state in previous.hours.items()
    }
    for hour, files in sorted(files_by_hour.items()):
        state = _emptied(hours.get(hour, HourState(rows=0, files=())), run, terms.now)
        hours[hour] = msgspec.structs.replace(
            state.with_files({file.path: file.digest for file in files}),
            rows=sum(file.rows for file in files),
            bytes=sum(file.bytes for file in files),
            schema_number=terms.schema_number,
        )
    for hour, lack in lacking.items():
        state = msgspec.structs.replace(hours[hour], whole=lack.had)
        hours[hour] = msgspec.structs.replace(state, incomplete=state.lack)
    return hours


def _emptied(state: HourState, run: int, now: int) -> HourState:
    """The state of an hour before its rebuilt files are added: it remembers its certificates."""
    return HourState(
        rows=0,
        files=(),
        changed=run,
        at=now,
        certificates=state.certificates,
        certified=state.certified,
    )
