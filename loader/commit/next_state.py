"""From what was read to the manifest that makes it true, of a load or of a rebuild. Pure.

The manifest of a load is that of the run before it, and what its reports add: files, hours,
offsets, and which events of which source have landed.

A rebuild replaces hours by what the brokers have of them. Nothing is added to an hour: all its
files go, and what was read anew takes their place. The hour is open again, so its markers go first;
whoever waits for `_SUCCESS` does not read it half replaced. It is closed like any other, and its
files are merged, by the run that follows. Where the partitions have been read to stays as it is,
and so does what has landed of sources. Dead letters are written again: those of the runs before
stay where they are.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from loader.commit.accounts import accounts_of, by_log, is_complete, passages
from loader.commit.layout import (
    DEAD,
    INCOMPLETE,
    LATE,
    SUCCESS,
    hour_path,
    late_marker,
    no_marker,
    part_path,
    success_marker,
)
from loader.commit.old_hours import faded
from loader.commit.sources import after_run
from loader.commit.staging import Staged, StagedFile, check
from loader.decoding.decoded import COLLISION
from loader.errors import GapError, Mismatch, TooManyDead, TooManyDuplicates
from loader.landing.pieces import FileKind
from loader.manifests import (
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
from loader.planning.plan import Plan
from loader.reports import SliceReport
from loader.tables import Hour, Slice, hour_of

FEW_DUPLICATES: Final = 100  # so many may always be


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """By whom and when a run is committed, and what may not be exceeded in it."""

    now: int  # milliseconds
    loader: str
    schema: str  # the columns that the table has ever had, as Spark's JSON
    dead_share: float
    few_dead: int
    duplicate_share: float
    forget_after: int  # milliseconds after which a source is not remembered any more


def next_run(previous: Manifest | None) -> int:
    return FIRST_RUN if previous is None else previous.run + 1


def load_manifest(
    previous: Manifest | None,
    plan: Plan,
    staged: Staged,
    table: str,
    terms: Terms,
) -> Manifest:
    """`ledger_entries` is still to be filled in.

    What is staged must have been verified, and rows of mixed hours divided. Raises Mismatch if it
    is not what was planned, TooManyDead, and TooManyDuplicates.
    """
    check(plan.slices, staged)
    reports = [staged.reports[piece.number] for piece in plan.slices]
    check_dead(table, reports, terms)
    check_duplicates(table, reports, terms)
    run, now = next_run(previous), terms.now
    before = {} if previous is None else previous.hours
    adds = [*added(plan.slices, staged, table=table, run=run, now=now)]
    visible = [each for each in adds if each.path.startswith(f"{table}/")]
    hours = _hours(before, visible, run, now)
    return Manifest(
        version=VERSION,
        run=run,
        kind=RunKind.LOAD,
        table=table,
        committed=now,
        loader=terms.loader,
        topics=topics_after(plan, staged.reports),
        adds=tuple(adds),
        markers=tuple(_late_markers(table, run, visible, hours)),
        passages=passages(plan.slices, staged.reports, staged.sources, before),
        dead=dict(_sum(report.dead for report in reports)),
        duplicates=sum(report.duplicates for report in reports),
        hours=faded(hours, now),
        sources=after_run(
            () if previous is None else previous.sources,
            staged.sources,
            now=now,
            forget=terms.forget_after,
        ),
        schema=terms.schema,
        ledger_seq=0 if previous is None else previous.ledger_seq + previous.ledger_entries,
    )


def added(
    slices: Iterable[Slice], staged: Staged, *, table: str, run: int, now: int
) -> Iterable[Added]:
    """Every staged file with its name to be. Dead letters lie in the hour in which they were found.

    In the order of the slices, and of a slice by hour.
    """
    files: dict[int, list[StagedFile]] = defaultdict(list)
    for file in staged.files:
        files[file.slice].append(file)
    for piece in slices:
        report = staged.reports[piece.number]
        named: Counter[str] = Counter()
        for file in sorted(files[piece.number], key=lambda each: (each.hour or 0, each.path)):
            dead = file.kind is FileKind.DEAD
            hour = hour_of(now) if file.hour is None else file.hour
            name = part_path(
                f"{DEAD}/{piece.topic}" if dead else table,
                hour,
                cluster=piece.cluster,
                partition=piece.partition,
                first=piece.first,
                end=report.next_offset,
                run=run,
            )
            named[name] += 1
            further = f"-{named[name]}" if named[name] > 1 else ""
            yield Added(
                staged=file.path,
                path=f"{name}{further}{file.suffix}",
                hour=hour,
                rows=file.rows,
                bytes=file.bytes,
                cluster=piece.cluster,
                topic=piece.topic,
                partition=piece.partition,
                first=piece.first,
                next_offset=report.next_offset,
            )


def check_dead(table: str, reports: Sequence[SliceReport], terms: Terms) -> None:
    """Raises TooManyDead. Fewer than `few_dead` are never too many. What lost a collision could be
    decoded, and does not count."""
    dead = sum(report.dead_count - report.dead.get(COLLISION, 0) for report in reports)
    records = dead + sum(report.row_count + report.duplicates for report in reports)
    if dead < terms.few_dead or dead <= terms.dead_share * records:
        return
    reasons = _sum(report.dead for report in reports)
    del reasons[COLLISION]
    reason, _ = reasons.most_common(1)[0]
    where = next(report for report in reports if reason in report.dead)
    raise TooManyDead(
        f"table {table}: {dead:,} of {records:,} records cannot be decoded, more than"
        f" `dead_share: {terms.dead_share}` allows; most of them: {reason} (as in"
        f" {where.topic}-{where.partition}, offsets {where.first} to {where.next_offset - 1});"
        " nothing was committed"
    )


def check_duplicates(table: str, reports: Sequence[SliceReport], terms: Terms) -> None:
    """Whoever numbers all its events alike would lose them, or have dead letters only. Raises
    TooManyDuplicates."""
    duplicates = sum(report.duplicates + report.dead.get(COLLISION, 0) for report in reports)
    records = sum(report.duplicates + report.row_count + report.dead_count for report in reports)
    if duplicates < FEW_DUPLICATES or duplicates <= terms.duplicate_share * records:
        return
    where = max(reports, key=lambda report: report.duplicates)
    raise TooManyDuplicates(
        f"table {table}: {duplicates:,} of {records:,} records have a source and seq that landed"
        f" before, more than `duplicate_share: {terms.duplicate_share}` allows; most of them:"
        f" source {where.repeated} (as in {where.topic}-{where.partition}, offsets {where.first} to"
        f" {where.next_offset - 1}); nothing was committed. If it does not number its events, its"
        " source must be empty; if the log has them twice: --set duplicate_share=1"
    )


def topics_after(plan: Plan, reports: Mapping[int, SliceReport]) -> tuple[TopicState, ...]:
    """Where everything has been read to."""
    read = by_log(plan.slices)

    def partition_after(topic: TopicState, before: PartitionState) -> PartitionState:
        pieces = read.get((topic.cluster, topic.topic, before.partition))
        if not pieces:
            return before
        found = [reports[piece.number] for piece in pieces]
        newest = max(found, key=lambda report: report.next_offset)
        epochs = [report.leader_epoch for report in found if report.leader_epoch >= 0]
        batches = [report.last for report in found if report.last is not None]
        given_up = sum(account.given_up for account in accounts_of(pieces, reports))
        return msgspec.structs.replace(
            before,
            next_offset=newest.next_offset,
            leader_epoch=max(epochs, default=before.leader_epoch),
            skipped=before.skipped + given_up,
            last=max(batches, key=lambda each: each.next_offset, default=before.last),
        )

    return tuple(
        msgspec.structs.replace(
            topic, partitions=tuple(partition_after(topic, each) for each in topic.partitions)
        )
        for topic in plan.topics
    )


def at_rest(topics: Sequence[TopicState]) -> tuple[TopicState, ...]:
    """The same, of a run that reads nothing."""
    return tuple(
        msgspec.structs.replace(topic, partitions=tuple(map(_at_rest, topic.partitions)))
        for topic in topics
    )


def _at_rest(state: PartitionState) -> PartitionState:
    return msgspec.structs.replace(state, from_offset=-1, skipped=0)


def _hours(
    before: Mapping[Hour, HourState], adds: Sequence[Added], run: int, now: int
) -> dict[Hour, HourState]:
    by_hour: dict[Hour, list[Added]] = defaultdict(list)
    for each in adds:
        by_hour[each.hour].append(each)
    hours = dict(before)
    for hour, files in by_hour.items():
        known = before.get(hour, HourState(rows=0, files=()))
        rows = sum(file.rows for file in files)
        hours[hour] = msgspec.structs.replace(
            known,
            rows=known.rows + rows,
            files=(*known.files, *(file.path for file in files)),
            bytes=known.bytes + sum(file.bytes for file in files),
            changed=run,
            late_rows=known.late_rows + (rows if is_complete(known) else 0),
            at=now,
        )
    return hours


def _late_markers(
    table: str, run: int, adds: Sequence[Added], hours: Mapping[Hour, HourState]
) -> Iterable[Marker]:
    for hour in sorted({each.hour for each in adds}):
        if is_complete(hours.get(hour)):
            files = [each.path for each in adds if each.hour == hour]
            rows = sum(each.rows for each in adds if each.hour == hour)
            yield late_marker(table, hour, run, rows, files)
            yield success_marker(table, hour, hours[hour], run)


def _sum(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return total


def rebuild_manifest(
    previous: Manifest,
    plan: Plan,
    staged: Staged,
    hours: Collection[Hour],
    terms: Terms,
    *,
    markers: Mapping[Hour, Sequence[str]],
    accept_gap: bool,
) -> Manifest:
    """What follows on `previous`. `markers` are the names of what lies beside the rows of each
    hour. `ledger_entries` is still to be filled in.

    What is staged must have been verified. Raises Mismatch if it is not what was planned,
    TooManyDead, TooManyDuplicates, and GapError if less came back of an hour than it had, unless
    that is accepted; that nothing came back never is.
    """
    check(plan.slices, staged)
    reports = [staged.reports[piece.number] for piece in plan.slices]
    _check_hours(previous.table, reports, hours)
    check_dead(previous.table, reports, terms)
    check_duplicates(previous.table, reports, terms)
    read = passages(plan.slices, staged.reports, staged.sources, {})
    if not accept_gap:
        _check_all_came_back(previous, read, hours)
    _check_none_is_emptied(previous, reports, hours)
    run, now = next_run(previous), terms.now
    adds = tuple(added(plan.slices, staged, table=previous.table, run=run, now=now))
    return Manifest(
        version=VERSION,
        run=run,
        kind=RunKind.REBUILD,
        table=previous.table,
        committed=now,
        loader=terms.loader,
        topics=at_rest(previous.topics),
        adds=adds,
        removes=tuple(_replaced(previous, hours)),
        markers=tuple(_markers_gone(previous.table, hours, markers)),
        passages=read,
        rebuilt=tuple(sorted(hours)),
        dead=dict(_sum(report.dead for report in reports)),
        duplicates=sum(report.duplicates for report in reports),
        hours=faded(_hours_rebuilt(previous, adds, hours, run, now), now),
        sources=after_run(previous.sources, staged.sources, now=now, forget=terms.forget_after),
        schema=terms.schema,
        ledger_seq=previous.ledger_seq + previous.ledger_entries,
    )


def _check_hours(table: str, reports: Sequence[SliceReport], hours: Collection[Hour]) -> None:
    for report in reports:
        odd = report.rows.keys() - set(hours)
        if odd:
            raise Mismatch(
                f"{hour_path(table, min(odd))} is not to be rebuilt, and rows of it were written"
            )


def _check_all_came_back(
    previous: Manifest, read: Sequence[Passage], hours: Collection[Hour]
) -> None:
    """As rows, as duplicates, or as what cannot be decoded any more."""
    came: Counter[Hour] = Counter()
    for window in (window for passage in read for window in passage.windows):
        came[hour_of(window.start)] += window.rows + window.duplicates + window.dead
    for hour in sorted(hours):
        had = previous.hours[hour].rows if hour in previous.hours else 0
        if came[hour] < had:
            raise GapError(
                f"{hour_path(previous.table, hour)}: it has {had:,} rows, and the brokers have"
                f" {came[hour]:,} events of it; nothing was replaced. To rebuild it from those:"
                " --accept-gap"
            )


def _check_none_is_emptied(
    previous: Manifest, reports: Sequence[SliceReport], hours: Collection[Hour]
) -> None:
    came = {hour for report in reports for hour, rows in report.rows.items() if rows}
    emptied = [
        hour_path(previous.table, hour)
        for hour in sorted(hours)
        if hour not in came and hour in previous.hours and previous.hours[hour].rows
    ]
    if emptied:
        raise GapError(
            f"{', '.join(emptied)}: there are rows, and none of them could be read again from the"
            " brokers; nothing was replaced. Who does not want them deletes their files"
        )


def _replaced(previous: Manifest, hours: Collection[Hour]) -> Iterator[str]:
    for hour in sorted(hours):
        if hour in previous.hours:
            yield from previous.hours[hour].files


def _markers_gone(
    table: str, hours: Collection[Hour], there: Mapping[Hour, Sequence[str]]
) -> Iterator[Marker]:
    for hour in sorted(hours):
        for name in sorted(there.get(hour, ())):
            if name in {SUCCESS, INCOMPLETE} or name.startswith(LATE):
                yield no_marker(table, hour, name)


def _hours_rebuilt(
    previous: Manifest, adds: Sequence[Added], rebuilt: Collection[Hour], run: int, now: int
) -> dict[Hour, HourState]:
    """An hour that has no rows any more is still one that was loaded, and is to be closed."""
    by_hour: defaultdict[Hour, list[Added]] = defaultdict(list)
    for each in adds:
        if not each.path.startswith(f"{DEAD}/"):
            by_hour[each.hour].append(each)
    empty = HourState(rows=0, files=(), changed=run, at=now)
    hours = {hour: empty if hour in rebuilt else state for hour, state in previous.hours.items()}
    for hour, files in sorted(by_hour.items()):
        hours[hour] = HourState(
            rows=sum(file.rows for file in files),
            files=tuple(file.path for file in files),
            bytes=sum(file.bytes for file in files),
            changed=run,
            at=now,
        )
    return hours
