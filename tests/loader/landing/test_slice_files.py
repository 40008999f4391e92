"""Files of slices: Parquet in pieces with Spark's separators between them; how many there are, and
how large their row groups."""

import datetime
import decimal
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from loader.config import FileCompression
from loader.decoding.decoded import Dead
from loader.errors import TooManyHours
from loader.landing.pieces import HOUR_COLUMN, PIECE_END, FileKind
from loader.landing.slice_files import (
    MOST_ROWS,
    PIECE_BYTES,
    ParquetStream,
    SliceFiles,
    row_groups,
    writer_settings,
)
from loader.landing.task import DeadLetters, Landing
from loader.values.reports import MOST_HOURS_OF_RUN
from loader.values.tables import (
    FIRST_TIME,
    HOUR_MILLIS,
    LAST_TIME,
    Hour,
    hour_in_folder,
    hour_of,
)
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


def test_row_groups_hold_so_many_bytes_and_rows() -> None:
    batches = [pa.record_batch({"n": pa.array([at] * 100, pa.int64())}) for at in range(10)]
    groups = list(row_groups(batches, 2_500))
    assert [group.num_rows for group in groups] == [300, 300, 300, 100]
    assert pa.concat_tables(groups) == pa.Table.from_batches(batches)
    large = pa.record_batch({"n": pa.array(range(1000), pa.int64())})
    groups = list(row_groups([large], 3_000))
    assert max(group.nbytes for group in groups) <= 3_000
    assert pa.concat_tables(groups) == pa.Table.from_batches([large])

    half = MOST_ROWS // 2 + 1
    groups = list(row_groups([pa.record_batch({"n": pa.nulls(half)})] * 3, 1 << 40))
    assert [group.num_rows for group in groups] == [half] * 3
    halves = list(row_groups([pa.record_batch({"n": pa.nulls(MOST_ROWS + 2)})], 1 << 40))
    assert [group.num_rows for group in halves] == [half] * 2


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
    assert report.digests == {
        hour_in_folder(f"dt={day}/hour={hour}"): sha256(data).digest()
        for (kind, _, day, hour), data in files.items()
        if kind == FileKind.ROWS
    }
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
    landing = Landing(a_slice(), a_spec(memory_bytes=400_000), most_hours=0)
    early = 0
    for first in range(0, 28_000, 700):
        at_hours = of_hours(700)
        events = [each._replace(offset=first + each.seq, seq=first + each.seq) for each in at_hours]
        early += sum(
            piece.nbytes for piece in landing.take(a_header(first, 700, START), decoded(events))
        )
    assert early > sum(piece.nbytes for piece in landing.end(28_000, 0))


def test_dead_letters_do_not_wait_for_the_end() -> None:
    landing = Landing(a_slice(), a_spec())
    dead = [Dead(at, START, b"key", bytes(1 << 20), "broken", "why") for at in range(20)]
    pieces = list(landing.take(a_header(0, 20, START), decoded((), dead)))
    assert len(pieces) == 1
    more = list(landing.take(a_header(20, 1, START), decoded(in_order(1, offset=20))))
    files = written([*pieces, *more, *landing.end(21, 0)])
    (data,) = (data for key, data in files.items() if key[0] == FileKind.DEAD)
    assert report_of(files).dead_digest == sha256(data).digest()
    letters = only(files, FileKind.DEAD)
    assert letters is not None
    assert letters.num_rows == 20


def test_dead_letters_may_say_anything() -> None:
    letters = DeadLetters(a_slice())
    wild = Dead(7, -(1 << 63), None, None, "broken", "half a pair: \ud800", (1 << 32) - 2)
    letters.add([wild])
    assert letters.bytes > 0
    table = letters.take()
    assert table is not None
    origin = {"topic": "clicks", "cluster": "dc1", "partition": 7, "offset": 7}
    record = {"timestamp": -(1 << 63), "key": None, "value": None, "schema_id": -2}
    why = {"reason": "broken", "detail": "half a pair: ?"}
    assert table.to_pylist() == [origin | record | why]
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
    windows = windows_of(report_of(written(pieces))).values()
    found = [(each.start, each.dead, each.bytes) for each in windows]
    assert found == [(FIRST_TIME, 1, 1000), (LAST_TIME - MINUTE + 1, 1, 1000)]


def test_dead_letters_of_any_time_are_of_few_windows() -> None:
    landing = Landing(a_slice(), a_spec(times=(START, START + 2 * MINUTE)))
    times = [START + (at - 100) * MINUTE for at in range(200)]
    letters = [Dead(at, time, None, b"", "out of range", "") for at, time in enumerate(times)]
    pieces = [*landing.take(a_header(0, 200, START), decoded([], letters)), *landing.end(200, 1)]
    report = report_of(written(pieces))
    found = [(each.start - START, each.dead) for each in windows_of(report).values()]
    assert found == [(0, 101), (MINUTE, 1), (2 * MINUTE, 98)]


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


END = PIECE_END.encode()
UTC = datetime.UTC


def every_type(count: int) -> pa.Table:
    """Columns of all types that a table may have; values that repeat, that do not, and nulls."""
    numbers = list(range(count))
    moments = [datetime.datetime(2026, 11, 20, tzinfo=UTC).replace(microsecond=n) for n in numbers]
    struct = pa.struct([("deep", pa.struct([("text", pa.string())])), ("whole", pa.int64())])
    return pa.table(
        {
            "repeats": pa.array([f"host-{n % 3}" for n in numbers]),
            "text": pa.array([f"message {n} {n * n}" if n % 7 else None for n in numbers]),
            "blob": pa.array([n.to_bytes(4, "big") for n in numbers]),
            "whole": pa.array([n * n for n in numbers], pa.int64()),
            "small": pa.array([-n for n in numbers], pa.int32()),
            "real": pa.array([n / 7 for n in numbers], pa.float64()),
            "single": pa.array([float(n) for n in numbers], pa.float32()),
            "truth": pa.array([n % 2 == 0 for n in numbers]),
            "moment": pa.array(moments, pa.timestamp("us", tz="UTC")),
            "local": pa.array([each.replace(tzinfo=None) for each in moments], pa.timestamp("us")),
            "day": pa.array([n * 3 for n in numbers], pa.int32()).cast(pa.date32()),
            "money": pa.array([decimal.Decimal(n) / 4 for n in numbers], pa.decimal128(20, 2)),
            "list": pa.array([[n, n + 1] if n % 5 else [] for n in numbers], pa.list_(pa.int64())),
            "map": pa.array(
                [[(f"key {n}", str(n))] for n in numbers], pa.map_(pa.string(), pa.string())
            ),
            "struct": pa.array(
                [{"deep": {"text": f"text {n}"}, "whole": n * 11} for n in numbers], struct
            ),
            "null": pa.array([None] * count, pa.string()),
        }
    )


def file_of(pieces: list[bytes]) -> pq.ParquetFile:
    return pq.ParquetFile(pa.BufferReader(b"".join(piece + END for piece in pieces)))


@pytest.mark.parametrize("compression", list(FileCompression))
def test_row_groups_come_back(compression: FileCompression) -> None:
    rows = every_type(3000)
    stream = ParquetStream(rows.schema, writer_settings(rows, compression))
    pieces = [stream.row_group(rows.slice(0, 1000)), stream.row_group(rows.slice(1000, 1))]
    pieces.append(stream.end(rows.slice(1001)))
    file = file_of(pieces)
    assert [file.metadata.row_group(at).num_rows for at in range(3)] == [1000, 1, 1999]
    assert file.read().cast(rows.schema) == rows
    footer_alone = ParquetStream(rows.schema, writer_settings(rows, compression))
    file_again = file_of([footer_alone.row_group(rows), footer_alone.end()])
    assert file_again.read().cast(rows.schema) == rows
    packed = {file.metadata.row_group(0).column(at).compression for at in range(10)}
    assert packed == {
        "UNCOMPRESSED" if compression is FileCompression.NONE else compression.value.upper()
    }


def test_columns_are_written_as_their_values_are() -> None:
    rows = every_type(3000)
    stream = ParquetStream(rows.schema, writer_settings(rows, FileCompression.ZSTD))
    metadata = file_of([stream.end(rows)]).metadata.row_group(0)
    found = map(metadata.column, range(metadata.num_columns))
    columns = {column.path_in_schema: column for column in found}
    dictionaries = {path for path, each in columns.items() if each.has_dictionary_page}
    assert dictionaries == {"repeats", "null"}
    delta = {path for path, each in columns.items() if "DELTA_BINARY_PACKED" in each.encodings}
    whole = {"whole", "small", "moment", "local", "day", "list.list.element", "struct.whole"}
    assert delta == whole
    lengths = {
        path for path, each in columns.items() if "DELTA_LENGTH_BYTE_ARRAY" in each.encodings
    }
    text = {"text", "blob", "map.key_value.key", "map.key_value.value", "struct.deep.text"}
    assert lengths == text
    assert {path for path, each in columns.items() if not each.is_stats_set} == text


def test_a_table_without_text_or_repetition_is_written() -> None:
    rows = pa.table({"truth": pa.array([True, False])})
    stream = ParquetStream(rows.schema, writer_settings(rows, FileCompression.ZSTD))
    assert file_of([stream.end(rows)]).read() == rows


def test_spark_reads_every_type(spark: SparkSession, tmp_path: Path) -> None:
    rows = every_type(3000)
    stream = ParquetStream(rows.schema, writer_settings(rows, FileCompression.ZSTD))
    pieces = [stream.row_group(rows.slice(0, 2000)), stream.end(rows.slice(2000))]
    path = tmp_path / "part-0.txt"
    path.write_bytes(b"".join(piece + PIECE_END.encode() for piece in pieces))

    read = spark.read.parquet(path.as_uri())
    read = spark.read.parquet(path.as_uri())
    assert {field.name: field.dataType.simpleString() for field in read.schema} == {
        "repeats": "string",
        "text": "string",
        "blob": "binary",
        "whole": "bigint",
        "small": "int",
        "real": "double",
        "single": "float",
        "truth": "boolean",
        "moment": "timestamp",
        "local": "timestamp_ntz",
        "day": "date",
        "money": "decimal(20,2)",
        "list": "array<bigint>",
        "map": "map<string,string>",
        "struct": "struct<deep:struct<text:string>,whole:bigint>",
        "null": "string",
    }
    found = read.sort("whole").toArrow().cast(rows.schema)
    assert found.equals(rows.sort_by("whole"))
