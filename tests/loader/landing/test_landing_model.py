"""Whatever a slice holds: files and report are those of a few lines of plain Python."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from client.reading.partition_reader import Instead, PassedOver
from ground.intervals import merged
from loader.decoding.decoded import Dead
from loader.landing.pieces import HOUR_COLUMN, FileKind
from loader.landing.task import Landing
from loader.values.reports import ClosedIntervals, closed
from loader.values.tables import HOUR_MILLIS, Hour, hour_of
from tests.loader.landing.decoded_batches import (
    CRC,
    EPOCH,
    MINUTE,
    SIZE,
    START,
    Event,
    a_header,
    a_slice,
    a_spec,
    decoded,
)
from tests.loader.landing.staged import Files, only, report_of, rows_by_hour, windows_of, written
from tests.loader.membership import contains

FIRST = 10  # the slice's first offset; the first batch may begin before it
SOURCES = ("a/1", "a/2", "b/1", "")  # the last numbers nothing, though it seems to
TIMES = st.integers(-3 * HOUR_MILLIS, 3 * HOUR_MILLIS).map(lambda each: START + each)


@dataclass
class Batch:
    base: int
    next_offset: int
    time: int
    events: list[Event] = field(default_factory=list)
    dead: list[Dead] = field(default_factory=list)


@st.composite
def slices(draw: st.DrawFn) -> list[Batch]:
    """Batches of runs of events, of single ones in disorder, with holes and dead letters."""
    offset = draw(st.integers(FIRST - 5, FIRST + 3))
    batches = []
    for _ in range(draw(st.integers(0, 6))):
        batch = Batch(offset, offset, draw(TIMES))
        for _ in range(draw(st.integers(1, 4))):
            kind = draw(st.sampled_from(["run", "disorder", "dead", "hole"]))
            if kind == "run":
                source, seq, time = draw(
                    st.tuples(st.sampled_from(SOURCES), st.integers(-20, 40), TIMES)
                )
                step = draw(st.sampled_from([0, 1, MINUTE, 20 * MINUTE]))
                for at in range(draw(st.integers(1, 12))):
                    batch.events.append(Event(offset, time + at * step, source, seq + at))
                    offset += 1
            elif kind == "disorder":
                for seq in draw(st.lists(st.integers(-3, 60), min_size=20, max_size=40)):
                    time = START + seq * 7 * MINUTE
                    batch.events.append(Event(offset, time, draw(st.sampled_from(SOURCES)), seq))
                    offset += 1
            elif kind == "dead":
                reason = draw(st.sampled_from(["no value", "broken"]))
                batch.dead.append(Dead(offset, draw(TIMES), None, b"\0\xff", reason, "why"))
                offset += 1
            else:
                offset += draw(st.integers(1, 5))
        batch.next_offset = offset
        if offset > FIRST:
            batches.append(batch)
        offset += draw(st.sampled_from([0, 0, 3]))
    return batches


SPANS = st.tuples(st.integers(0, 50), st.integers(0, 10)).map(lambda each: (each[0], sum(each) + 1))
SEEN = st.dictionaries(
    st.sampled_from(SOURCES), st.lists(SPANS, max_size=3).map(lambda spans: closed(merged(spans)))
)
HOURS = st.lists(st.integers(-3, 2), unique=True, max_size=3).map(
    lambda hours: tuple(Hour(START + hour * HOUR_MILLIS) for hour in hours)
)


@given(slices(), SEEN, HOURS, st.sampled_from([0, 20_000, 1 << 20]), st.sampled_from([1, 200]))
def test_files_and_report_are_true(
    batches: list[Batch],
    seen: dict[str, ClosedIntervals],
    only_hours: tuple[Hour, ...],
    memory_bytes: int,
    most_hours: int,
) -> None:
    spec = a_spec(only_hours=only_hours, memory_bytes=memory_bytes)
    end = max([FIRST, *(batch.next_offset for batch in batches)]) + 4
    landing = Landing(a_slice(FIRST), spec, seen, most_hours=most_hours)
    files = written(pieces(landing, batches, end))
    report = report_of(files)

    events, dead = wanted(batches, only_hours)
    new = without_duplicates(events, seen)
    assert offsets_by_hour(files) == by_hour(new)
    letters = only(files, FileKind.DEAD)
    assert (letters.column("offset").to_pylist() if letters else []) == [
        each.offset for each in dead
    ]

    assert (report.first, report.next_offset, report.slice) == (FIRST, end, 3)
    assert report.rows == {hour: len(offsets) for hour, offsets in by_hour(new).items()}
    assert report.duplicates == len(events) - len(new)
    assert report.dead == Counter(each.reason for each in dead)
    assert report.leader_epoch == EPOCH
    with_records = [each for each in batches if each.events or each.dead]
    assert (report.batches, report.bytes) == (len(with_records), SIZE * len(with_records))
    assert {run.source: run.intervals for run in report.sources} == landed_intervals(new)

    begins = max(batches[0].base, FIRST) if batches else end
    assert (report.begins, report.leads) == (begins, begins - FIRST)
    counted = report.row_count + report.duplicates + report.dead_count + report.no_events
    assert counted + report.other_hours == end - begins
    for account in report.accounts:
        there = range(account.first, account.next_offset)
        assert account.rows == sum(each.offset in there for each in new)
        assert account.dead == sum(each.offset in there for each in dead)
        assert account.rows + account.duplicates == sum(each.offset in there for each in events)
        assert account.adds_up

    windows = windows_of(report)
    assert not only_hours or {hour_of(start) for start in windows} <= set(only_hours)
    for start in windows.keys() | {each.time - each.time % MINUTE for each in events}:
        window = windows[start]
        assert window.rows == in_window(start, [each.time for each in new])
        assert window.rows + window.duplicates == in_window(start, [each.time for each in events])
        assert window.dead == in_window(start, [each.timestamp for each in dead])
        assert window.bytes == SIZE * in_window(start, [each.time for each in with_records])
        assert window.crc_sum == CRC * in_window(start, [each.time for each in with_records])


def pieces(landing: Landing, batches: list[Batch], end: int) -> Iterator[pa.RecordBatch]:
    reached = FIRST
    for batch in batches:
        header = a_header(batch.base, batch.next_offset - batch.base, batch.time)
        header = header._replace(record_count=len(batch.events) + len(batch.dead))
        if batch.base > reached:
            passed = PassedOver(reached, batch.base, Instead.HOLE)
            landing.nothing(passed, given_up=False)
        reached = batch.next_offset
        if not header.record_count:
            first = max(FIRST, batch.base)
            passed = PassedOver(first, batch.next_offset, Instead.EMPTIED, header)
            landing.nothing(passed, given_up=False)
            continue
        yield from landing.take(header, decoded(batch.events, batch.dead))
    if end > reached:
        landing.nothing(PassedOver(reached, end, Instead.HOLE), given_up=False)
    yield from landing.end(end, EPOCH)


def wanted(batches: list[Batch], hours: tuple[Hour, ...]) -> tuple[list[Event], list[Dead]]:
    """What is from the first offset on, and of the hours that are asked for."""
    events = [each for batch in batches for each in batch.events if each.offset >= FIRST]
    dead = [each for batch in batches for each in batch.dead if each.offset >= FIRST]
    return (
        [each for each in events if not hours or hour_of(each.time) in hours],
        [each for each in dead if not hours or hour_of(each.timestamp) in hours],
    )


def without_duplicates(events: list[Event], seen: dict[str, ClosedIntervals]) -> list[Event]:
    had: set[tuple[str, int]] = set()
    new = []
    for event in events:
        if not is_numbered(event):
            new.append(event)
            continue
        if (event.source, event.seq) in had or contains(seen.get(event.source, ()), event.seq):
            continue
        had.add((event.source, event.seq))
        new.append(event)
    return new


def by_hour(events: list[Event]) -> dict[Hour, list[int]]:
    hours = sorted({hour_of(each.time) for each in events})
    return {
        hour: sorted(each.offset for each in events if hour_of(each.time) == hour) for hour in hours
    }


def offsets_by_hour(files: Files) -> dict[Hour, list[int]]:
    """Of files of one hour, and of the one with the rest."""
    found = {
        hour: sorted(rows.column("_offset").to_pylist())
        for hour, rows in rows_by_hour(files).items()
    }
    mixed = only(files, FileKind.MIXED)
    for row in mixed.select(["_offset", HOUR_COLUMN]).to_pylist() if mixed else ():
        found.setdefault(Hour(row[HOUR_COLUMN]), []).append(row["_offset"])
    return {hour: sorted(offsets) for hour, offsets in sorted(found.items())}


def landed_intervals(events: list[Event]) -> dict[str, ClosedIntervals]:
    numbered = [each for each in events if is_numbered(each)]
    return {
        source: closed(
            merged((each.seq, each.seq + 1) for each in numbered if each.source == source)
        )
        for source in {each.source for each in numbered}
    }


def is_numbered(event: Event) -> bool:
    return event.source != "" and event.seq >= 0


def in_window(start: int, times: list[int]) -> int:
    return sum(start <= time < start + MINUTE for time in times)
