"""Rows are held back in order, weighed truly, and given away hour by hour, so that a task's memory
is bounded, however large its partition is, and however many hours it holds."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.landing.held_rows import HeldRows
from loader.landing.rows import (
    HeldBytes,
    beginnings,
    bounds,
    counted,
    ends,
    numbers,
    part_of,
    positions,
)
from loader.values.tables import FIRST_TIME, HOUR_MILLIS, LAST_TIME, Hour
from tests.loader.landing.decoded_batches import COLUMNS, START, Event, decoded, in_order

LATER = Hour(START + HOUR_MILLIS)


def hold(held: HeldRows, events: list[Event]) -> None:
    batch = decoded(events)
    assert batch.rows is not None
    held.add(batch.rows, batch.times, bounds(batch.times))


def offsets(batches: list[pa.RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("_offset").to_pylist()]


def taken(held: HeldRows) -> dict[Hour, list[int]]:
    return {hour: offsets(batches) for hour, batches in held.take_all()}


def scattered(hours: range, each: int) -> list[Event]:
    """Events of many hours, in turns."""
    times = [START + hour * HOUR_MILLIS for _ in range(each) for hour in hours]
    return [Event(at, time, "a/1", at) for at, time in enumerate(times)]


def test_large_and_small_batches_keep_their_order() -> None:
    held = HeldRows(COLUMNS, 1 << 30)
    sizes = [5, 2000, 7, *([1] * 130), 1500, 3]
    start = 0
    for size in sizes:
        hold(held, in_order(size, offset=start))
        start += size
    assert taken(held) == {START: list(range(start))}
    assert held.bytes == 0


def test_a_batch_is_divided_where_its_hour_changes() -> None:
    held = HeldRows(COLUMNS, 1 << 30)
    hold(held, in_order(10))
    hold(held, in_order(10, offset=10, time=START + HOUR_MILLIS - 4))
    hold(held, in_order(10, offset=20, time=LATER))
    assert taken(held) == {START: list(range(14)), LATER: list(range(14, 30))}


def test_hours_with_most_rows_go_first_and_half_is_left() -> None:
    held = HeldRows(COLUMNS, 600_000)
    hold(held, in_order(500, time=START))
    hold(held, in_order(5_000, time=LATER))
    events = scattered(range(2, 12), 100)
    hold(held, events)
    assert not held.is_full
    assert [hour for hour, _ in held.take_largest()] == [LATER]
    assert 0 < held.bytes <= 300_000
    rest = taken(held)
    assert next(iter(rest)) == START
    assert sum(len(each) for each in rest.values()) == 1_500
    assert rest[Hour(START + 5 * HOUR_MILLIS)] == list(range(3, 1000, 10))


def test_what_is_left_of_many_hours_lets_go_of_what_was_taken() -> None:
    held = HeldRows(COLUMNS, 150_000)
    largest = scattered(range(3), 1_000)
    start = len(largest)
    hold(held, largest)
    hold(held, [each._replace(offset=start + each.offset) for each in scattered(range(9), 20)])
    assert held.is_full
    gone = dict(held.take_largest())
    assert len(gone) < 9
    weight = HeldBytes(COLUMNS)
    left = dict(held.take_all())
    assert {weight.of(batch) < 85_000 for batches in left.values() for batch in batches} == {True}
    together = {hour: offsets(batches) for hour, batches in {**gone, **left}.items()}
    for place in range(9):
        hour = Hour(START + place * HOUR_MILLIS)
        expected = [each.offset for each in largest if each.time == hour]
        expected += [start + place + 9 * at for at in range(20)]
        assert together[hour] == expected


def test_batches_weigh_what_they_keep_in_memory() -> None:
    batch = decoded(in_order(10_000)).rows
    assert batch is not None
    held = HeldBytes(COLUMNS)
    own = sum(batch.column(name).nbytes for name in ("text", "time", "source", "seq", "_offset"))
    assert own <= held.of(batch) < own + 20_000
    assert held.of(batch.slice(5, 1)) >= own  # all of it stays in memory
    assert held.of(part_of(batch, 5, 6)) < 20_000
    assert part_of(batch, 5, 8_000).column(0).to_pylist() == batch.column(0).to_pylist()[5:8_000]
    assert part_of(batch, 5, 8).column(0).to_pylist() == batch.column(0).to_pylist()[5:8]


@pytest.mark.not_quick("measures memory")
def test_few_rows_at_a_time_do_not_fill_memory_with_what_is_around_them() -> None:
    held = HeldRows(COLUMNS, 1 << 30)
    for at in range(2_000):
        hold(held, in_order(1, offset=at))
    ((_, batches),) = held.take_all()
    assert len(batches) < 100
    assert offsets(batches) == list(range(2_000))


TIMES = st.lists(st.integers(FIRST_TIME, LAST_TIME), min_size=1, max_size=20)
LENGTHS = st.sampled_from([HOUR_MILLIS, 60_000, 1_000, 7_000])


@given(TIMES, LENGTHS)
def test_intervals_of_time(times: list[int], length: int) -> None:
    column = pa.array(times, pa.int64())
    expected = [time - time % length for time in times]
    assert beginnings(column, length).to_pylist() == expected
    assert bounds(column) == (min(times), max(times))
    assert counted(column, length, bounds(column)) == Counter(expected)


@given(st.lists(st.sampled_from("ab"), max_size=20))
def test_stretches_end_where_values_change(values: list[str]) -> None:
    found = [at for at in range(1, len(values)) if values[at] != values[at - 1]]
    expected = [*found, len(values)] if values else []
    assert ends(pa.array(values, pa.string())) == expected


def test_numbers_and_positions() -> None:
    assert numbers(100_000).to_pylist() == list(range(100_000))
    assert positions([(2, 4), (7, 7), (9, 10)], 10).to_pylist() == [2, 3, 9]
    assert positions([], 10).to_pylist() == []


ROOT = Path(__file__).resolve().parents[3]
MEGABYTE = 1024 * 1024
AROUND = 100 * MEGABYTE  # files that are open, row groups while they are encoded, freed memory


@pytest.mark.not_quick("measures memory")
@pytest.mark.parametrize(("unpacked", "hours"), [(300 * MEGABYTE, 1), (150 * MEGABYTE, 2000)])
def test_a_large_slice_does_not_need_more_memory(unpacked: int, hours: int) -> None:
    memory = 24 * MEGABYTE
    command = [sys.executable, "-m", "tests.loader.landing.held_memory"]
    finished = subprocess.run(
        [*command, str(memory), str(unpacked), str(hours)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=100,
    )
    most, written = map(int, finished.stdout.split())
    assert written > unpacked // 4
    assert most < memory + AROUND
