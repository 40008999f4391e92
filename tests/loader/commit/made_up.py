"""Values for tests of a commit: slices, reports, manifests, with what matters given."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ground.intervals import merged
from loader.commit.next_state import Terms
from loader.commit.sources import LandedSources
from loader.commit.staging import Staged, StagedFile
from loader.landing.pieces import FileKind
from loader.planning.plan import Plan
from loader.values.manifests import (
    VERSION,
    HourState,
    Manifest,
    PartitionState,
    RunKind,
    TopicState,
)
from loader.values.reports import Account, ClosedIntervals, LandedWindow, SliceReport, SourceRun
from loader.values.tables import HOUR_MILLIS, Hour, Slice

HOUR: Final = Hour(1_795_132_800_000)  # 2026-11-20, midnight
NEXT_HOUR: Final = Hour(HOUR + HOUR_MILLIS)
NOW: Final = HOUR + 5 * HOUR_MILLIS + 1234


def terms(**changes: Any) -> Terms:
    known = Terms(
        now=NOW,
        loader="test",
        schema="columns",
        schema_number=1,
        dead_share=0.5,
        few_dead=0,
        duplicate_share=0.5,
        forget_after=86_400_000,
    )
    return msgspec.structs.replace(known, **changes)


def piece(number: int, first: int, end: int, *, partition: int = 0, topic: str = "t") -> Slice:
    return Slice(
        number=number,
        topic=topic,
        topic_id="id",
        cluster="dc1",
        partition=partition,
        first=first,
        end=end,
    )


def report(
    of: Slice,
    rows: Mapping[Hour, int],
    *,
    next_offset: int | None = None,
    duplicates: int = 0,
    dead: int = 0,
    no_events: int | None = None,
    sources: Mapping[str, ClosedIntervals] | None = None,
    scattered: tuple[str, ...] = (),
    leader_epoch: int = 3,
    leads: int | None = None,
) -> SliceReport:
    """All rows of an hour are in its first window, with what did not become one. What is not said
    to be anything was compacted away; or, with `no_events`, lies before all that is."""
    end = of.end if next_offset is None else next_offset
    begins = min(rows, default=HOUR)
    windows = {hour: LandedWindow(start=hour, rows=count) for hour, count in rows.items()}
    first = windows.get(begins, LandedWindow(start=begins))
    if rows or duplicates or dead:
        windows[begins] = LandedWindow(
            start=begins, rows=first.rows, duplicates=duplicates, dead=dead, bytes=100, crc_sum=7
        )
    counted = sum(rows.values()) + duplicates + dead
    compacted = end - of.first - counted if no_events is None else no_events
    accounted_from = end - counted - compacted
    account = Account(
        leader_epoch=leader_epoch,
        first=accounted_from,
        next_offset=end,
        rows=sum(rows.values()),
        duplicates=duplicates,
        dead=dead,
        compacted=compacted,
        windows=tuple(windows.values()),
    )
    return SliceReport(
        slice=of.number,
        topic=of.topic,
        partition=of.partition,
        first=of.first,
        next_offset=end,
        begins=accounted_from,
        leads=accounted_from - of.first if leads is None else leads,
        leader_epoch=leader_epoch,
        batches=1,
        bytes=100,
        accounts=(account,) if end > accounted_from else (),
        rows=dict(rows),
        sources=tuple(
            SourceRun(source=source, intervals=intervals, leader_epoch=leader_epoch)
            for source, intervals in (sources or {}).items()
        ),
        scattered=scattered,
        dead={"no value": dead} if dead else {},
    )


def left_by(*reports: SliceReport) -> Staged:
    """With just the files that they name, counted."""
    files = []
    for each in reports:
        for hour, rows in each.rows.items():
            path = f"staging/{each.slice}/{hour}"
            files.append(StagedFile(FileKind.ROWS, each.slice, hour, path, rows * 10, rows=rows))
        if each.dead:
            path = f"staging/{each.slice}/dead"
            count = each.dead_count
            files.append(StagedFile(FileKind.DEAD, each.slice, None, path, 5, rows=count))
    sources = LandedSources()
    for each in reports:
        sources.add(each)
    return Staged({each.slice: each for each in reports}, tuple(files), sources)


def plan_of(*slices: Slice) -> Plan:
    """Every partition is read from the first of its slices on."""
    partitions: dict[str, dict[int, int]] = {}
    for each in slices:
        of_topic = partitions.setdefault(each.topic, {})
        of_topic[each.partition] = min(each.first, of_topic.get(each.partition, each.first))
    topics = tuple(
        TopicState(
            topic=topic,
            cluster="dc1",
            topic_id="id",
            partitions=tuple(
                PartitionState(partition=partition, next_offset=first, from_offset=first)
                for partition, first in of_topic.items()
            ),
        )
        for topic, of_topic in partitions.items()
    )
    return Plan(slices=slices, ranges=(), topics=topics)


def manifest(run: int, *, hours: Mapping[Hour, HourState] | None = None) -> Manifest:
    return Manifest(
        version=VERSION,
        run=run,
        kind=RunKind.LOAD,
        table="t",
        committed=NOW - HOUR_MILLIS,
        loader="test",
        topics=(),
        hours=dict(hours or {}),
        complete=merged(
            (hour, hour + HOUR_MILLIS)
            for hour, state in (hours or {}).items()
            if state.complete >= 0
        ),
        ledger_seq=40,
        ledger_entries=2,
    )
