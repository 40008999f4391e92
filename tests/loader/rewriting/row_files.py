"""Files of rows as tasks leave them, with a column of every kind."""

import datetime
import json
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from columns.column_types import list_of
from loader.config import FileCompression, FileFormat
from loader.decoding.spark_types import spark_json
from loader.rewriting.files import options_of
from loader.rewriting.row_format import RowFormat

NESTED: Final = pa.struct([("a", pa.int64()), ("b", list_of(pa.int32()))])
SCHEMA: Final = pa.schema(
    {
        "message": pa.string(),
        "count": pa.int32(),
        "share": pa.float64(),
        "ratio": pa.float32(),
        "ok": pa.bool_(),
        "raw": pa.binary(),
        "day": pa.date32(),
        "price": pa.decimal128(20, 4),
        "at": pa.timestamp("us", tz="UTC"),
        "local": pa.timestamp("us"),
        "nothing": pa.string(),
        "tags": list_of(pa.string()),
        "counts": pa.map_(pa.string(), pa.int64()),
        "nested": NESTED,
        "_offset": pa.int64(),
    }
)

Row = dict[str, Any]


def row(offset: int) -> Row:
    """Every third value of each column is null, and none is easily written."""
    at = datetime.datetime(2026, 11, 20, 7, 59, 59, 123456, datetime.UTC)
    later = at + datetime.timedelta(microseconds=offset)
    values: Row = {
        "message": f'line {offset}\n"\u2028\r\U0001f600 \\',
        "count": -offset,
        "share": offset / 7,
        "ratio": float(offset) / 8,
        "ok": offset % 2 == 0,
        "raw": bytes([offset % 256, 255, 0]),
        "day": datetime.date(1969, 12, 31) + datetime.timedelta(days=offset),
        "price": Decimal(offset) / 8 + Decimal(10**14),
        "at": later,
        "local": later.replace(tzinfo=None),
        "nothing": None,
        "tags": ["", f"{offset}", None],
        "counts": [("x", offset), ("y", None)],
        "nested": {"a": offset, "b": [1, None, offset]},
    }
    nulls = {name: None for at, name in enumerate(values) if (at + offset) % 3 == 0}
    return {**values, **nulls, "_offset": offset}


def write_rows(
    path: Path,
    offsets: Iterable[int],
    extra: dict[str, pa.Array] | None = None,
    row_group_size: int = 1 << 20,
) -> str:
    """A Parquet file as a task leaves it; its URI."""
    table = pa.Table.from_pylist(list(map(row, offsets)), SCHEMA)
    for name, values in (extra or {}).items():
        table = table.append_column(name, values)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd", row_group_size=row_group_size)
    return f"file://{path}"


def columns(**more: pa.DataType) -> str:
    """As Spark's JSON: those of `SCHEMA`, some of them of another type, and more."""
    return spark_json(pa.schema(dict(zip(SCHEMA.names, SCHEMA.types, strict=True)) | more))


def target(
    format_: FileFormat = FileFormat.PARQUET,
    compression: FileCompression = FileCompression.ZSTD,
    of: str | None = None,
) -> RowFormat:
    return RowFormat(format_, compression, of or columns())


def frame(spark: SparkSession, path: Path, like: RowFormat) -> DataFrame:
    """As a user reads it, with the columns that are known."""
    reader = spark.read.format(like.format.value).options(**options_of(like.format))
    known = StructType.fromJson(json.loads(like.columns))
    return reader.schema(known).load(f"file://{path}")


def read_rows(spark: SparkSession, path: Path, like: RowFormat) -> list[Row]:
    """By offset, in pyarrow's words."""
    found = frame(spark, path, like).toArrow().to_pylist()
    return sorted(found, key=lambda each: each["_offset"] or 0)
