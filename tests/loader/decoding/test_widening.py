"""Columns of two times as one set: what Spark reads from files of either, and nothing else."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from pyspark.sql import SparkSession

from columns.column_types import list_of, map_of
from loader.decoding.columns import Columns
from loader.decoding.spark_types import columns_of_spark, spark_json, type_words
from loader.decoding.widening import CannotWiden, widened
from loader.errors import NoSchema
from schemas.errors import InvalidSchema
from schemas.parsing import parse
from tests.loader.decoding.decoding import columns_of
from tests.schemas.avro_strategies import schemas

INT, LONG, FLOAT, DOUBLE = pa.int32(), pa.int64(), pa.float32(), pa.float64()
UTC = pa.timestamp("us", tz="UTC")

WIDER: list[tuple[pa.DataType, pa.DataType, pa.DataType]] = [
    (INT, LONG, LONG),
    (INT, DOUBLE, DOUBLE),
    (INT, FLOAT, DOUBLE),
    (FLOAT, DOUBLE, DOUBLE),
    (pa.decimal128(5, 2), pa.decimal128(10, 2), pa.decimal128(10, 2)),
    (pa.decimal128(5, 2), pa.decimal128(5, 3), pa.decimal128(6, 3)),
    (pa.decimal128(20, 4), pa.decimal128(38, 0), pa.decimal128(38, 0)),
]
VALUES = {INT: 7, LONG: 2**40, FLOAT: 1.5, DOUBLE: 0.1}


def schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


@pytest.mark.parametrize(("one", "other", "both"), WIDER[:-1])
def test_the_wider_type_whichever_came_first(
    one: pa.DataType, other: pa.DataType, both: pa.DataType
) -> None:
    def nested(type_: pa.DataType) -> pa.Schema:
        return schema(a=type_, b=list_of(type_), c=map_of(pa.struct([("x", type_)])))

    assert widened(nested(one), nested(other)) == nested(both)
    assert widened(nested(other), nested(one)) == nested(both)


def test_former_columns_stay_behind_the_latest() -> None:
    former = schema(A=INT, gone=LONG, s=pa.struct([("x", INT), ("y", INT)]))
    latest = schema(new=FLOAT, s=pa.struct([("z", INT), ("X", LONG)]), a=INT)

    found = widened(former, latest)

    assert found == schema(
        new=FLOAT, s=pa.struct([("z", INT), ("x", LONG), ("y", INT)]), A=INT, gone=LONG
    )
    assert widened(found, latest) == found
    assert widened(former, former) == former


@pytest.mark.parametrize(
    ("former", "latest", "words"),
    [
        (schema(a=INT), schema(a=pa.string()), "`a` was integer, and is string"),
        (schema(a=LONG), schema(a=DOUBLE), "`a` was long, and is double"),
        (schema(a=pa.string()), schema(a=pa.binary()), "`a` was string, and is binary"),
        (schema(a=LONG), schema(a=UTC), "`a` was long, and is timestamp"),
        (schema(a=UTC), schema(a=pa.timestamp("us")), "`a` was timestamp, and is timestamp_ntz"),
        (schema(a=pa.date32()), schema(a=INT), "`a` was date, and is integer"),
        (schema(a=INT), schema(a=list_of(INT)), "`a` was integer, and is array<integer>"),
        (
            schema(A=pa.struct([("x", map_of(INT))])),
            schema(a=pa.struct([("x", map_of(pa.string()))])),
            "`A.x.value` was integer, and is string",
        ),
        (
            schema(a=list_of(pa.struct([("x", INT)]))),
            schema(a=list_of(pa.bool_())),
            "`a.element` was a struct, and is boolean",
        ),
        (
            schema(a=pa.decimal128(38, 0)),
            schema(a=pa.decimal128(20, 4)),
            r"`a` was decimal\(38,0\), and is decimal\(20,4\)",
        ),
    ],
)
def test_what_no_reader_makes_one_column_of(
    former: pa.Schema, latest: pa.Schema, words: str
) -> None:
    with pytest.raises(CannotWiden, match=f"^{words}$"):
        widened(former, latest)


def test_types_in_words() -> None:
    assert type_words(map_of(list_of(INT))) == "map<string, array<integer>>"


@given(schemas())
def test_what_is_written_is_read_back(avro: Any) -> None:
    try:
        columns: Columns = columns_of(parse(json.dumps(avro), strict=False))
    except (NoSchema, InvalidSchema):
        return
    assert columns_of_spark(columns.spark_json) == columns.arrow


def test_spark_reads_files_of_both(spark: SparkSession, tmp_path: Path) -> None:
    """By the footer beside them, with nothing else said."""
    former, latest = [], []
    for place, (one, other, _) in enumerate(WIDER[:-1]):
        former += [(f"a{place}", one), (f"b{place}", other), (f"c{place}", list_of(one))]
        latest += [(f"a{place}", other), (f"b{place}", one), (f"c{place}", list_of(other))]
    tables = [
        pa.table([pa.array([_value(type_)], type_) for _, type_ in fields], pa.schema(fields))
        for fields in ([*former, ("gone", INT)], [*latest, ("new", INT)])
    ]
    folders = [tmp_path / "dt=1970-01-01/hour=00", tmp_path / "dt=1970-01-01/hour=01"]
    for table, folder in zip(tables, folders, strict=True):
        folder.mkdir(parents=True)
        pq.write_table(table, folder / "part-0.parquet")
    both = widened(*(table.schema for table in tables))
    pq.write_metadata(both, tmp_path / "_common_metadata", store_schema=False)

    found = spark.read.parquet(f"file://{tmp_path}")

    columns = found.drop("dt", "hour")
    assert columns.schema.jsonValue() == columns_json(both)
    rows = found.orderBy("hour").drop("dt", "hour").collect()
    for table, row in zip(tables, rows, strict=True):
        (expected,) = table.to_pylist()
        assert row.asDict() == {name: expected.get(name) for name in both.names}


def columns_json(columns: pa.Schema) -> Any:
    return json.loads(spark_json(columns))


def _value(type_: pa.DataType) -> Any:
    if pa.types.is_list(type_):
        return [_value(type_.value_type), None]
    if pa.types.is_decimal(type_):
        return Decimal("1.5")
    return VALUES[type_]
