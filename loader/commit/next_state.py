"""From what was read to the manifest that makes it true. Pure.

The manifest of a load is that of the run before it, and what its reports add: files, hours,
offsets, and which events of which source have landed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from loader.commit.accounts import accounts_of, by_log
from loader.commit.layout import DEAD, part_path
from loader.commit.old_hours import faded
from loader.commit.passages import is_complete, passages
from loader.commit.source_states import after_run
from loader.commit.staging import Staged, StagedFile, check
from loader.errors import TooManyDead, TooManyDuplicates
from loader.landing.pieces import FileKind
from loader.manifests import (
    FIRST_RUN,
    VERSION,
    Added,
    HourState,
    Kind,
    Manifest,
    Marker,
    PartitionState,
    TopicState,
)
from loader.markers import late_marker, success_marker
from loader.planning.plan import Plan
from loader.reports import SliceReport
from loader.tables import Hour, Slice, hour_of

FEW_DUPLICATES: Final = 100  # so many may always be


def next_run(previous: Manifest | None) -> int:
    return FIRST_RUN if previous is None else previous.run + 1


def load_manifest(
    previous: Manifest | None,
    plan: Plan,
    staged: Staged,
    *,
    table: str,
    now: int,
    loader: str,
    schema: str,
    dead_share: float,
    few_dead: int,
    duplicate_share: float,
    forget_after: int,
) -> Manifest:
    """Times are in milliseconds. `ledger_entries` is still to be filled in.

    What is staged must have been verified, and rows of mixed hours divided. Raises Mismatch if it
    is not what was planned, TooManyDead, and TooManyDuplicates.
    """
    check(plan.slices, staged)
    reports = [staged.reports[piece.number] for piece in plan.slices]
    check_dead(table, reports, dead_share, few_dead)
    check_duplicates(table, reports, duplicate_share)
    run = next_run(previous)
    before = {} if previous is None else previous.hours
    adds = [*added(plan.slices, staged, table=table, run=run, now=now)]
    visible = [each for each in adds if each.path.startswith(f"{table}/")]
    hours = _hours(before, visible, run, now)
    return Manifest(
        version=VERSION,
        run=run,
        kind=Kind.LOAD,
        table=table,
        committed=now,
        loader=loader,
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
            forget=forget_after,
        ),
        schema=schema,
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


def check_dead(
    table: str, reports: Sequence[SliceReport], dead_share: float, few_dead: int
) -> None:
    """Raises TooManyDead. Fewer than `few_dead` are never too many."""
    dead = sum(report.dead_count for report in reports)
    records = dead + sum(report.row_count + report.duplicates for report in reports)
    if dead < few_dead or dead <= dead_share * records:
        return
    reason, _ = _sum(report.dead for report in reports).most_common(1)[0]
    where = next(report for report in reports if reason in report.dead)
    raise TooManyDead(
        f"table {table}: {dead:,} of {records:,} records cannot be decoded, more than"
        f" `dead_share: {dead_share}` allows; most of them: {reason} (as in"
        f" {where.topic}-{where.partition}, offsets {where.first} to {where.next_offset - 1});"
        " nothing was committed"
    )


def check_duplicates(table: str, reports: Sequence[SliceReport], duplicate_share: float) -> None:
    """Whoever numbers all its events alike would lose them. Raises TooManyDuplicates."""
    duplicates = sum(report.duplicates for report in reports)
    records = duplicates + sum(report.row_count + report.dead_count for report in reports)
    if duplicates < FEW_DUPLICATES or duplicates <= duplicate_share * records:
        return
    where = max(reports, key=lambda report: report.duplicates)
    raise TooManyDuplicates(
        f"table {table}: {duplicates:,} of {records:,} records have a source and seq that landed"
        f" before, more than `duplicate_share: {duplicate_share}` allows; most of them: source"
        f" {where.repeated} (as in {where.topic}-{where.partition}, offsets {where.first} to"
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
