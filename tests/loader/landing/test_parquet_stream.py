"""Pieces with Spark's separators between them are Parquet files, of all types of columns."""

import datetime
import decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loader.config import FileCompression
from loader.landing.pieces import PIECE_END
from loader.landing.slice_files import ParquetStream, writer_settings

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
    packed = {file.metadata.row_group(0).column(at).compression for at in range(10)}
    assert packed == {
        "UNCOMPRESSED" if compression is FileCompression.NONE else compression.value.upper()
    }


def test_a_footer_may_come_alone() -> None:
    rows = every_type(10)
    stream = ParquetStream(rows.schema, writer_settings(rows, FileCompression.ZSTD))
    assert file_of([stream.row_group(rows), stream.end()]).read().cast(rows.schema) == rows


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
