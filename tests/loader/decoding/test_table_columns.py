"""Rows in the columns of their table: every value as it was, and nothing else becomes one."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from columns.column_types import list_of, map_of
from loader.decoding.table_columns import are_same, fit, have_same_values, in_columns
from loader.errors import Mismatch

INT, LONG, FLOAT, DOUBLE = pa.int32(), pa.int64(), pa.float32(), pa.float64()
NARROW, WIDE = pa.decimal128(5, 2), pa.decimal128(8, 4)


def of(type_: pa.DataType, values: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, type_)], names=["a"])


def schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


@pytest.mark.parametrize(
    ("narrow", "wide", "values"),
    [
        (INT, LONG, [2**31 - 1, None, -(2**31)]),
        (INT, DOUBLE, [2**31 - 1, None, -(2**31)]),
        (FLOAT, DOUBLE, [0.5, None, float("nan"), float("-inf")]),
        (NARROW, WIDE, [Decimal("-999.99"), None, Decimal("0.01")]),
    ],
)
def test_values_stay_and_missing_columns_are_null(
    narrow: pa.DataType, wide: pa.DataType, values: list[Any]
) -> None:
    """Also in lists, maps and structs; also in a part of a batch."""

    def nested(type_: pa.DataType, **more: pa.DataType) -> pa.Schema:
        struct = pa.struct([*more.items(), ("x", list_of(type_))])
        return schema(a=type_, b=list_of(type_), c=map_of(struct), d=struct)

    rows = pa.RecordBatch.from_pylist(
        [
            {"a": value, "b": [value], "c": [("k", {"x": [value]})], "d": {"x": [value, None]}}
            for value in values
        ]
        + [{"a": None, "b": None, "c": None, "d": None}, {"b": [], "c": [], "d": {"x": None}}],
        nested(narrow),
    )
    table = pa.schema([("new", pa.string()), *nested(wide, y=pa.string())])
    assert fit(rows.schema, table)
    for part in (rows, rows.slice(1), rows.slice(0, 0)):
        found = in_columns(part, table)
        found.validate(full=True)
        assert found.schema == table
        assert found.column("new").null_count == part.num_rows
        for name, type_ in zip("abcd", nested(narrow), strict=True):
            back = pa.RecordBatch.from_arrays([found.column(name)], names=[name])
            if name in "ab":
                assert have_same_values(in_columns(back, pa.schema([type_])), part.select([name]))
        lists = [item and item["x"] for item in found.column("d").to_pylist()]
        assert repr([*map(_floats, lists)]) == repr(
            [_floats(item and item["x"]) for item in part.column("d").to_pylist()]
        )


def _floats(values: list[Any] | None) -> list[float | None] | None:
    return values and [None if value is None else float(value) for value in values]


@pytest.mark.parametrize(
    ("rows", "table", "says"),
    [
        (of(LONG, [2**40]), schema(a=INT), "`a` has values of type long that do not fit integer"),
        (of(LONG, [2**53 + 1]), schema(a=DOUBLE), "that do not fit double"),
        (of(DOUBLE, [0.1]), schema(a=FLOAT), "that do not fit float"),
        (of(WIDE, [Decimal("0.0001")]), schema(a=NARROW), "that do not fit"),
        (of(INT, [1]), schema(a=list_of(INT)), "that do not fit array"),
        (of(INT, [1]), schema(b=INT), "no column `a`, which rows have"),
    ],
)
def test_rows_that_would_lose_something_are_an_error(
    rows: pa.RecordBatch, table: pa.Schema, says: str
) -> None:
    assert not fit(rows.schema, table)
    with pytest.raises(Mismatch, match=says):
        in_columns(rows, table)


def test_columns_are_the_same_in_any_order() -> None:
    one = schema(a=INT, s=pa.struct([("x", INT), ("y", LONG)]))
    assert are_same(one, schema(S=pa.struct([("y", LONG), ("x", INT)]), a=INT))
    others = [schema(a=INT), schema(a=INT, s=pa.struct([("x", INT), ("y", INT)]))]
    assert not any(are_same(one, other) for other in others)


@pytest.mark.parametrize(
    ("type_", "values", "other"),
    [
        (FLOAT, [float("nan"), 1.0], [1.0, float("nan")]),
        (DOUBLE, [float("nan"), 0.0], [float("nan"), None]),
        (list_of(FLOAT), [[float("nan"), None]], [[float("nan")]]),
        (map_of(DOUBLE), [[("k", float("nan"))], None], [[("k", float("nan"))], []]),
        (pa.struct([("x", FLOAT)]), [{"x": None}], [None]),
    ],
)
def test_nan_equals_nan_and_nothing_else(
    type_: pa.DataType, values: list[Any], other: list[Any]
) -> None:
    rows = of(type_, [*values, *values])
    assert have_same_values(rows.slice(0, len(values)), rows.slice(len(values)))
    assert not have_same_values(of(type_, values), of(type_, other))
