"""How many files there are, how large their row groups, and what is done beyond that."""

import pyarrow as pa
import pytest

from loader.config import FileCompression
from loader.decoding.decoded import Dead
from loader.errors import TooManyHours
from loader.landing.pieces import HOUR_COLUMN, FileKind
from loader.landing.slice_files import MOST_ROWS, PIECE_BYTES, SliceFiles, row_groups
from loader.landing.task import DeadLetters, Landing
from loader.reports import MOST_HOURS_OF_RUN
from loader.tables import FIRST_TIME, HOUR_MILLIS, LAST_TIME, Hour, hour_of
from tests.loader.landing.decoded_batches import (
    MINUTE,
    START,
    Event,
    a_header,
    a_slice,
    a_spec,
    decoded,
    in_order,
    landed,
)
from tests.loader.landing.staged import only, report_of, rows_by_hour, windows_of, written


def test_row_groups_hold_so_many_bytes() -> None:
    batches = [pa.record_batch({"n": pa.array([at] * 100, pa.int64())}) for at in range(10)]
    groups = list(row_groups(batches, 2_500))
    assert [group.num_rows for group in groups] == [300, 300, 300, 100]
    assert pa.concat_tables(groups) == pa.Table.from_batches(batches)


def test_a_large_batch_is_divided() -> None:
    batch = pa.record_batch({"n": pa.array(range(1000), pa.int64())})
    groups = list(row_groups([batch], 3_000))
    assert max(group.nbytes for group in groups) <= 3_000
    assert pa.concat_tables(groups) == pa.Table.from_batches([batch])


def test_row_groups_hold_so_many_rows() -> None:
    batch = pa.record_batch({"n": pa.nulls(MOST_ROWS // 2 + 1)})
    groups = list(row_groups([batch] * 3, 1 << 40))
    assert [group.num_rows for group in groups] == [MOST_ROWS // 2 + 1] * 3
    halves = list(row_groups([pa.record_batch({"n": pa.nulls(MOST_ROWS + 2)})], 1 << 40))
    assert [group.num_rows for group in halves] == [MOST_ROWS // 2 + 1] * 2


@pytest.mark.not_quick("packs megabytes")
def test_row_groups_grow_as_far_as_rows_pack_well() -> None:
    """A piece has about PIECE_BYTES, not a row group in memory."""
    files = SliceFiles(1, FileCompression.ZSTD, 1 << 30, most_hours=1)
    batch = pa.record_batch({"n": pa.array(range(1 << 19), pa.int64())})  # four megabytes
    pieces = list(files.rows(Hour(0), [batch] * 12))
    assert len(pieces) == 6  # MOST_ROWS each, or thereabouts
    assert all(piece.nbytes < PIECE_BYTES for piece in pieces)
    noise = pa.record_batch({"n": pa.array([bytes(range(256)) * 4096] * 40, pa.binary())})
    assert len(list(row_groups([noise], PIECE_BYTES))) == 2


def of_hours(count: int) -> list[Event]:
    return [Event(at, START + at % 7 * HOUR_MILLIS, "a/1", at) for at in range(count)]


@pytest.mark.parametrize("most_hours", [0, 1, 6, 7])
def test_hours_beyond_the_most_are_mixed(most_hours: int) -> None:
    events = of_hours(700)
    landing = Landing(a_slice(), a_spec(), most_hours=most_hours)
    files = written(landed(landing, events))
    own, mixed = rows_by_hour(files), only(files, FileKind.MIXED)
    assert len(own) == most_hours
    report = report_of(files)
    assert len(report.rows) == 7
    assert set(report.mixed) == set(report.rows) - set(own)
    assert sum(report.rows[hour] for hour in report.mixed) == (7 - most_hours) * 100
    if mixed is None:
        assert most_hours == 7
        return
    assert set(mixed.column(HOUR_COLUMN).to_pylist()) == set(report.mixed)
    for row in mixed.to_pylist():
        assert hour_of(events[row["_offset"]].time) == row[HOUR_COLUMN]


def test_mixed_rows_do_not_wait_for_the_end() -> None:
    memory = 400_000
    landing = Landing(a_slice(), a_spec(memory_bytes=memory), most_hours=0)
    early = sum(
        piece.nbytes
        for at in range(40)
        for piece in landing.take(
            a_header(at * 700, 700, START),
            decoded(
                [
                    each._replace(offset=each.offset + at * 700, seq=each.seq + at * 700)
                    for each in of_hours(700)
                ]
            ),
        )
    )
    late = sum(piece.nbytes for piece in landing.end(40 * 700, 0))
    assert early > late


def test_dead_letters_do_not_wait_for_the_end() -> None:
    landing = Landing(a_slice(), a_spec())
    dead = [Dead(at, START, b"key", bytes(1 << 20), "broken", "why") for at in range(20)]
    pieces = list(landing.take(a_header(0, 20, START), decoded((), dead)))
    assert len(pieces) == 1
    more = list(landing.take(a_header(20, 1, START), decoded(in_order(1, offset=20))))
    letters = only(written([*pieces, *more, *landing.end(21, 0)]), FileKind.DEAD)
    assert letters is not None
    assert letters.num_rows == 20


def test_dead_letters_may_say_anything() -> None:
    letters = DeadLetters(a_slice())
    wild = Dead(7, -(1 << 63), None, None, "broken", "half a pair: \ud800", (1 << 32) - 2)
    letters.add([wild])
    assert letters.bytes > 0
    table = letters.take()
    assert table is not None
    (row,) = table.to_pylist()
    assert row == {
        "topic": "clicks",
        "cluster": "dc1",
        "partition": 7,
        "offset": 7,
        "timestamp": -(1 << 63),
        "key": None,
        "value": None,
        "reason": "broken",
        "detail": "half a pair: ?",
        "schema_id": -2,
    }
    assert letters.take() is None


def test_batches_and_dead_letters_of_any_time_are_counted() -> None:
    """Time is what a producer says it is."""
    landing = Landing(a_slice(), a_spec())
    times = [-(1 << 63), (1 << 63) - 1]
    dead = [Dead(at, time, b"", b"", "broken", "why") for at, time in enumerate(times)]
    pieces = [
        *landing.take(a_header(0, 1, times[0]), decoded((), dead[:1])),
        *landing.take(a_header(1, 1, times[1]), decoded((), dead[1:])),
        *landing.end(2, 0),
    ]
    report = report_of(written(pieces))
    assert [(each.dead, each.bytes) for each in windows_of(report).values()] == [
        (1, 1000),
        (1, 1000),
    ]
    starts = [each.start for each in windows_of(report).values()]
    assert starts == [FIRST_TIME, LAST_TIME - MINUTE + 1]


def test_dead_letters_of_any_time_are_of_few_windows() -> None:
    landing = Landing(a_slice(), a_spec(times=(START, START + 2 * MINUTE)))
    times = [START + (at - 100) * MINUTE for at in range(200)]
    letters = [Dead(at, time, None, b"", "out of range", "") for at, time in enumerate(times)]
    pieces = [*landing.take(a_header(0, 200, START), decoded([], letters)), *landing.end(200, 1)]
    report = report_of(written(pieces))
    found = [(each.start - START, each.dead) for each in windows_of(report).values()]
    assert found == [(0, 101), (MINUTE, 1), (2 * MINUTE, 98)]


def test_an_empty_slice_is_a_report() -> None:
    files = written(Landing(a_slice(5, 9), a_spec()).end(9, -1))
    (report,) = [report_of(files)]
    assert len(files) == 1
    assert (report.first, report.next_offset, report.rows, report.no_events) == (5, 9, {}, 0)


def test_a_slice_of_more_hours_than_a_run_may_have_is_given_up() -> None:
    """Long before its files are made."""
    landing = Landing(a_slice(), a_spec(memory_bytes=1 << 30), {})
    hours = MOST_HOURS_OF_RUN // 2
    for half in range(2):
        first = half * hours
        events = [
            Event(at, START + at * HOUR_MILLIS, "a/1", at) for at in range(first, first + hours)
        ]
        list(landing.take(a_header(first, hours, START), decoded(events)))
    one_more = Event(2 * hours, START - 1, "a/1", 2 * hours)
    with pytest.raises(TooManyHours, match=r"^clicks-7, offsets 0 to 20000: "):
        list(landing.take(a_header(2 * hours, 1, START), decoded([one_more])))
