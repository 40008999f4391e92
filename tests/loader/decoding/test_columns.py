"""A table has the columns that Spark makes of the schema, under names that do not clash."""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from loader.config import HeaderColumns
from loader.decoding.columns import Columns
from loader.errors import NoSchema
from schemas.event_schemas import BUILT_IN, LEDGER, LOG_LINE, built_in
from schemas.parsing import AvroSchema, parse
from tests.loader.decoding.decoding import (
    array,
    columns_of,
    enum,
    fixed,
    logical,
    map_of,
    record,
    schema,
)

UTC = pa.timestamp("us", tz="UTC")
MEMBERS = pa.struct(
    {"member_int": pa.int32(), "member_string": pa.string(), "member_long": pa.int64()}.items()
)


def type_of(avro: Any) -> pa.DataType:
    return columns_of(schema(("x", avro))).arrow.field("x").type


@pytest.mark.parametrize(
    ("avro", "column"),
    [
        ("null", pa.string()),
        ("boolean", pa.bool_()),
        ("int", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("bytes", pa.binary()),
        ("string", pa.string()),
        (fixed(5), pa.binary()),
        (fixed(12, "duration"), pa.binary()),
        (fixed(16, "uuid"), pa.binary()),
        (fixed(8, "decimal", precision=18, scale=3), pa.decimal128(18, 3)),
        (logical("bytes", "decimal", precision=38, scale=38), pa.decimal128(38, 38)),
        (logical("bytes", "decimal", precision=39, scale=2), pa.binary()),
        (logical("bytes", "decimal", precision=2, scale=3), pa.binary()),  # says nothing
        (logical("int", "date"), pa.date32()),
        (logical("long", "date"), pa.int64()),
        (logical("int", "time-millis"), pa.int32()),
        (logical("long", "time-micros"), pa.int64()),
        (logical("long", "timestamp-millis"), UTC),
        (logical("long", "timestamp-micros"), UTC),
        (logical("long", "timestamp-nanos"), pa.int64()),
        (logical("long", "local-timestamp-millis"), pa.timestamp("us")),
        (logical("long", "local-timestamp-micros"), pa.timestamp("us")),
        (logical("string", "uuid"), pa.string()),
        (enum("A"), pa.string()),
        (array("int"), pa.list_(pa.field("element", pa.int32()))),
        (map_of("int"), pa.map_(pa.string(), pa.int32())),
        (record("Q"), pa.bool_()),
        (["null", "int"], pa.int32()),
        (["string"], pa.string()),
        (["null"], pa.string()),
        (["int", "null", "long"], pa.int64()),
        (["double", "float"], pa.float64()),
        ([logical("int", "date"), "long"], pa.int64()),
        (["null", "int", "string", "long"], MEMBERS),
        (["null", array(["null", "int"])], pa.list_(pa.field("element", pa.int32()))),
    ],
)
def test_types_are_those_of_sparks_avro(avro: Any, column: pa.DataType) -> None:
    assert type_of(avro).equals(column)


def named(name: str, kind: str = "record") -> Any:
    return {"type": kind, "name": name, "symbols": ["A"], "fields": [{"name": "x", "type": "int"}]}


def test_a_member_is_called_after_its_type_wherever_it_stands() -> None:
    before = type_of(["string", named("shop.Order"), named("Kind", "enum")])
    after = type_of([named("Kind", "enum"), "null", "bytes", named("other.Order"), "string"])
    assert {each.name: each.type for each in before}.items() <= {
        e.name: e.type for e in after
    }.items()
    assert [each.name for each in after] == [
        *("member_Kind", "member_bytes", "member_Order", "member_string")
    ]


def test_members_that_spark_cannot_tell_apart() -> None:
    alike = [named(each) for each in ("a.Order", "b.Order", "Array", "Order_")]
    found = type_of([array("int"), map_of("int"), *alike])
    assert [each.name for each in found] == [
        *("member_array", "member_map", "member_Order", "member_Order__"),
        *("member_Array_", "member_Order_"),
    ]


@pytest.mark.parametrize("name", [*BUILT_IN, "every type"])
@pytest.mark.parametrize("header", HeaderColumns)
def test_spark_says_the_same_of_its_types(name: str, header: HeaderColumns) -> None:
    every_type = schema(
        ("a", ["null", "int", "bytes", fixed(8, "decimal", precision=9, scale=2)]),
        ("b", map_of(array(logical("int", "date")))),
        ("c", logical("long", "local-timestamp-micros")),
        ("d", record("D", ("e", "float"))),
    )
    reader = built_in(name) if name in BUILT_IN else every_type
    columns = columns_of(reader, header, with_cluster=True)
    spark = StructType.fromJson(json.loads(columns.spark_json))
    assert spark.json() == columns.spark_json
    assert to_arrow_schema(spark, timezone="UTC").equals(columns.arrow)


@pytest.mark.parametrize(
    ("reader", "names"),
    [
        (
            built_in(LOG_LINE),
            "path message time host app source seq position _topic _partition _offset",
        ),
        (schema(("user", "string")), "user _timestamp _topic _partition _offset"),
        (parse('"double"'), "value _timestamp _topic _partition _offset"),
    ],
    ids=["an event", "no event", "no record"],
)
def test_names_of_columns(reader: AvroSchema, names: str) -> None:
    """Who has no header has the record's timestamp."""
    columns = columns_of(reader)
    assert columns.arrow.names == names.split()
    assert columns.has_header == ("_timestamp" not in names)


def test_an_events_header_may_stay_one_column() -> None:
    columns = columns_of(built_in(LOG_LINE), HeaderColumns.NESTED, with_cluster=True)
    names = ["path", "message", "header", "_cluster", "_topic", "_partition", "_offset"]
    assert columns.arrow.names == names
    assert columns.arrow.field("header").type.field("time").type == UTC


def event(*fields: tuple[str, Any], of_header: Sequence[tuple[str, Any]] = ()) -> AvroSchema:
    header = json.loads(built_in("penstock.EventHeader").text)
    header["fields"] += [{"name": name, "type": type_, "default": 0} for name, type_ in of_header]
    return schema(("header", header), *fields)


HEADER = ("time", "host", "app", "source", "seq", "position")
OF_LOG = ("_topic", "_partition", "_offset")


def test_names_that_are_taken() -> None:
    made = event(
        ("Time", "int"),
        ("dt", "int"),
        ("_OFFSET", "int"),
        ("app", "int"),
        ("header_app", "int"),
        ("time_", "int"),
        ("TIME", "int"),
    )
    names = columns_of(made).arrow.names
    assert names == [
        *("Time__", "dt_", "_OFFSET_", "app_", "header_app", "time_", "TIME___"),
        *HEADER,
        *OF_LOG,
    ]


@pytest.mark.parametrize("added", HEADER)
def test_a_field_that_is_added_takes_nobodys_column(added: str) -> None:
    before = columns_of(event((f"{added}_", "int"), ("zone", "int"))).arrow
    after = columns_of(event((added, "string"), (f"{added}_", "int"), ("zone", "int"))).arrow
    assert [field for field in after if field in before] == list(before)
    assert set(after.names) - set(before.names) == {f"{added}__"}


def test_what_a_header_has_besides_has_names_of_its_own() -> None:
    made = event(("zone", "string"), ("header_zone", "int"), of_header=[("zone", "long")])
    columns = columns_of(made).arrow
    assert columns.names == ["zone", "header_zone_", *HEADER, "header_zone", *OF_LOG]
    assert columns.field("header_zone").type == pa.int64()


def test_names_inside_a_record_that_spark_cannot_tell_apart() -> None:
    inner = record("Q", *((name, "int") for name in ("a", "A", "dt")))
    assert [field.name for field in type_of(inner)] == ["a", "A_", "dt"]


def test_types_that_grow_without_bound_are_refused() -> None:
    tree = record("Tree", ("left", ["null", "Tree"]))
    with pytest.raises(NoSchema, match=r"^R: Tree contains itself"):
        columns_of(schema(("tree", tree)))
    # One that stands twice beside itself does not contain itself.
    columns = columns_of(schema(("a", record("Point", ("x", "int"))), ("b", "Point")))
    assert columns.arrow.field("a").type == columns.arrow.field("b").type
    inner = record("N0", ("x", "int"))
    for level in range(1, 14):
        inner = record(f"N{level}", ("a", inner), ("b", f"N{level - 1}"))
    with pytest.raises(NoSchema, match="more than 5,000 columns"):
        columns_of(schema(("r0", "int"), ("deep", inner)))


def test_equal_columns_are_equal() -> None:
    assert columns_of(built_in(LEDGER)) == columns_of(built_in(LEDGER))
    assert columns_of(built_in(LEDGER)) != columns_of(built_in(LEDGER), with_cluster=True)
    assert isinstance(hash(columns_of(built_in(LEDGER))), int)
    assert columns_of(built_in(LEDGER)) != Columns
