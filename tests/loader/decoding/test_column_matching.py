"""Which column a field has, over many versions of a schema."""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from columns.field_names import field_name, given_names
from loader.config import HeaderColumns
from loader.decoding.column_matching import renamed
from loader.decoding.columns import FOLDERS, ORIGIN
from loader.decoding.spark_types import columns_of_spark, spark_json, table_json
from loader.decoding.table_columns import are_same, in_columns, read_in_columns
from loader.decoding.widening import CannotWiden, widened
from loader.errors import Mismatch
from schemas.event_schemas import HEADER, built_in
from schemas.parsing import parse
from tests.loader.decoding.decoding import array, columns_of, map_of, record

Json = Any
Fields = Sequence[Json]


def field(name: str, type_: Any = "string", *aliases: str) -> Json:
    return {"name": name, "type": type_, "aliases": list(aliases)}


def version(fields: Iterable[Json], *, header: HeaderColumns | None = None) -> pa.Schema:
    """The columns of a new table, without those that are no fields."""
    first = [{"name": "header", "type": json.loads(built_in(HEADER).text)}] if header else []
    reader = parse(json.dumps(record("R", *first, *fields)), strict=False)
    return columns_of(reader, header or HeaderColumns.FLAT).arrow


def table_of(*versions: Fields, header: HeaderColumns | None = None) -> pa.Schema:
    """The columns after a load of each version; between loads they are text in a manifest."""
    table = version(versions[0], header=header)
    for fields in versions[1:]:
        table = widened(columns_of_spark(table_json(table)), version(fields, header=header))
    return table


def fields_in(table: pa.Schema) -> dict[str, str]:
    """The last name of the field in each column."""
    return {column.name: field_name(column) for column in table if column.name not in ORIGIN}


@pytest.mark.parametrize(
    ("versions", "columns"),
    [
        ([[field("user")], [field("customer", "string", "user")]], {"user": "customer"}),
        # An alias that is gone again, and one that comes later than the new name.
        (
            [[field("user")], [field("customer", "string", "user")], [field("customer")]],
            {"user": "customer"},
        ),
        (
            [[field("user")], [field("customer")], [field("customer", "string", "user")]],
            {"customer": "customer", "user": "user"},
        ),
        # Renamed twice, with all former names as aliases, or only the last one.
        (
            [[field("a")], [field("b", "string", "a")], [field("c", "string", "b")]],
            {"a": "c"},
        ),
        ([[field("a")], [field("c", "string", "b", "a")]], {"a": "c"}),
        ([[field("a")], [field("c", "string", "b")]], {"a": "a", "c": "c"}),
        ([[field("a")], [field("b", "string", "a")], [field("c", "string", "a")]], {"a": "c"}),
        # Taken back, by an alias or without.
        (
            [[field("a")], [field("b", "string", "a")], [field("a", "string", "b")]],
            {"a": "a"},
        ),
        ([[field("a")], [field("b", "string", "a")], [field("a")]], {"a": "a"}),
        # The former name is used again, with and without the alias, and later renamed itself.
        (
            [[field("a")], [field("b", "string", "a")], [field("b", "string", "a"), field("a")]],
            {"a": "b", "a_": "a"},
        ),
        (
            [
                [field("a")],
                [field("b", "string", "a")],
                [field("a", "int"), field("b")],
                [field("c", "int", "a"), field("b"), field("a_")],
            ],
            {"a": "b", "a_": "c", "a__": "a_"},
        ),
        (
            [[field("a")], [field("b", "string", "a")], [field("c", "string", "b"), field("a")]],
            {"a": "c", "a_": "a"},
        ),
        # Two fields exchange their names: at once, a schema does not say so.
        (
            [[field("a"), field("b")], [field("a", "string", "b"), field("b", "string", "a")]],
            {"a": "a", "b": "b"},
        ),
        (
            [
                [field("a"), field("b")],
                [field("a"), field("x", "string", "b")],
                [field("b", "string", "a"), field("x")],
                [field("b"), field("a", "string", "x")],
            ],
            {"a": "b", "b": "a"},
        ),
        # Two fields become one: the first alias counts.
        (
            [[field("a"), field("b")], [field("c", "string", "b", "a")]],
            {"b": "c", "a": "a"},
        ),
        ([[field("a", "int")], [field("b", "long", "a")]], {"a": "b"}),
        # What cannot be widened is not one column.
        ([[field("a", "long")], [field("b", "double", "a")]], {"a": "a", "b": "b"}),
        (
            [[field("a")], [field("b", "string", "a")], [field("a", "int")]],
            {"a": "b", "a_": "a"},
        ),
        # Spark ignores case; Avro does not.
        ([[field("User")], [field("user")], [field("login", "string", "user")]], {"User": "login"}),
        (
            [[field("User"), field("user")], [field("x", "string", "user"), field("User")]],
            {"User": "User", "user_": "x"},
        ),
        ([[field("_offset", "long")], [field("n", "long", "_offset")]], {"_offset_": "n"}),
    ],
)
def test_columns_and_their_fields(versions: list[Fields], columns: Mapping[str, str]) -> None:
    table = table_of(*versions)
    assert fields_in(table) == columns
    latest = version(versions[-1])
    assert widened(table, latest).equals(table)
    assert table_json(widened(table, latest)) == table_json(table)
    assert "names" not in spark_json(table)


@pytest.mark.parametrize("header", HeaderColumns)
def test_a_header_keeps_its_columns(header: HeaderColumns) -> None:
    """An event's field `host`, renamed and back, beside that of the header."""
    versions = [field("host")], [field("machine", "string", "host")], [field("host")]
    flat = header is HeaderColumns.FLAT
    columns = "host_" if flat else "host"
    for count, name in ((1, "host"), (2, "machine"), (3, "host")):
        table = table_of(*versions[:count], header=header)
        assert fields_in(table)[columns] == name
        assert table.names[0] == columns
        assert len(table) == len(version(versions[0], header=header))


def test_names_within_a_table_made_before_they_were_kept() -> None:
    former = columns_of_spark(spark_json(version([field("dt"), field("a")])))
    assert fields_in(former) == {"dt_": "dt_", "a": "a"}
    table = widened(former, version([field("dt"), field("b", "string", "a")]))
    assert fields_in(table) == {"dt_": "dt", "a": "b"}
    assert list(renamed(former, table)) == [("a", "a", "b")]


def nested(inner: Fields, kind: str = "Order", aliases: Sequence[str] = ()) -> list[Json]:
    """A record in a list, in a map, and as a member of a union."""
    item = record("I", *inner)
    member = record(kind, *inner, aliases=list(aliases))
    return [
        field("list", array(["null", item])),
        field("map", map_of("I")),
        field("union", ["string", member]),
    ]


def test_fields_of_records_wherever_they_are() -> None:
    former = version(nested([field("city"), field("n", "int")]))
    latest = version(nested([field("n", "long"), field("town", "string", "city")], "O2", ["Order"]))
    table = widened(former, latest)

    struct = pa.struct([("n", pa.int64()), ("city", pa.string())])
    assert table.field("list").type.value_type == struct
    assert table.field("map").type.item_type == struct
    members = pa.struct([("member_string", pa.string()), ("member_Order", struct)])
    assert table.field("union").type == members
    assert list(renamed(former, table)) == [
        ("list.city", "city", "town"),
        ("map.city", "city", "town"),
        ("union.member_Order", "member_Order", "member_O2"),
        ("union.member_Order.city", "city", "town"),
    ]
    again = columns_of_spark(table_json(table))
    assert table_json(widened(again, latest)) == table_json(table)
    assert list(renamed(again, table)) == []

    value = {"n": 2**40, "town": "B"}
    rows = pa.RecordBatch.from_pylist(
        [
            {
                "list": [value, None],
                "map": [("k", value), ("l", None)],
                "union": {"member_string": None, "member_O2": value},
            },
            {"list": None, "map": [], "union": {"member_string": "s", "member_O2": None}},
        ],
        latest,
    )
    stored = {"n": 2**40, "city": "B"}
    wanted = [
        {
            "list": [stored, None],
            "map": [("k", stored), ("l", None)],
            "union": {"member_string": None, "member_Order": stored},
        },
        {"list": None, "map": [], "union": {"member_string": "s", "member_Order": None}},
    ]
    for first, end in ((0, 2), (1, 2), (0, 1)):
        converted = read_in_columns(rows.slice(first, end - first), table)
        converted.validate(full=True)
        assert converted.schema == table
        assert converted.select(["list", "map", "union"]).to_pylist() == wanted[first:end]


def test_a_value_that_cannot_be_widened_deep_inside() -> None:
    """The outer record then has a column of its own; the former one stays as it is."""
    former = version([field("a", record("I", field("x", "long")))])
    latest = version([field("b", record("I", field("x", "double")), "a")])
    table = widened(former, latest)
    assert fields_in(table) == {"b": "b", "a": "a"}
    assert table.field("a").type == former.field("a").type
    with pytest.raises(CannotWiden, match=r"^`a\.x` was long"):
        widened(former, version([field("a", record("I", field("x", "double")))]))


def test_rows_that_are_not_those_of_the_table() -> None:
    table = table_of([field("a"), field("b")], [field("c", "string", "a"), field("b")])
    rows = pa.RecordBatch.from_pylist([], version([field("b"), field("c", "string", "a")]))
    with pytest.raises(Mismatch, match="column `a` is not that of field `b`"):
        read_in_columns(rows, table)
    fields = pa.schema(list(table)[:2])
    more = pa.RecordBatch.from_pylist([], version([field("c"), field("b"), field("d")]))
    with pytest.raises(Mismatch, match="the table has no column for field `d`"):
        read_in_columns(more.select(["c", "b", "d"]), fields)


def test_a_column_that_the_loader_adds_is_never_a_field() -> None:
    """The record's time, which a table has no more since events have a header."""
    former = version([field("a")])
    time = {"type": "long", "logicalType": "timestamp-micros"}
    table = widened(former, version([field("t", time, "_timestamp")], header=HeaderColumns.FLAT))
    assert fields_in(table)["t"] == "t"
    assert table.field("_timestamp") in list(former)


def test_columns_deep_inside_are_matched_once() -> None:
    """Otherwise the time would double with each record that is within another."""

    def version_of(leaf: str, name: str, *aliases: str) -> pa.Schema:
        fields = [field("x", leaf)]
        for level in range(24):
            inner = record(f"P{level}", *fields)
            fields = [
                field("r", record(f"R{level}", field(name, inner, *aliases))),
                field("x", leaf),
            ]
        return version(fields[:1])

    table = widened(version_of("long", "a"), version_of("long", "b", "a"))
    table = widened(table, version_of("double", "a", "b"))
    assert [inner.name for inner in table.field("r").type] == ["a_", "a"]


# Versions of a schema, of fields that have a life of their own: a number says which field it is.

_NAMES: Final = ("a", "A", "b", "user", "dt", "_offset", "time")
_TYPES: Final = {"int": ["long"], "float": ["double"], "long": [], "double": [], "string": []}


class Life:
    """A field, with the names that it has had."""

    def __init__(self, number: int, name: str, type_: str) -> None:
        self.number = number
        self.names = [name]
        self.type = type_

    def avro(self, *, keeps_aliases: bool) -> Json:
        last, *others = reversed(self.names)
        return field(last, self.type, *(others if keeps_aliases else others[:1]))


def _free(lives: Sequence[Life], removed: Set[str], in_use: Set[str]) -> list[str]:
    taken = {life.names[-1] for life in lives} | in_use
    return [name for name in _NAMES if name not in taken and name.lower() not in removed]


@st.composite
def histories(draw: st.DrawFn) -> list[list[tuple[int, Json]]]:
    """Versions, as the fields with their numbers. The name of a renamed field may be used again, by
    a later version; that of one that was removed may not, in any case, since nothing tells the two
    apart."""
    numbers = itertools.count()
    lives: list[Life] = []
    removed: set[str] = set()
    versions = []
    for _ in range(draw(st.integers(1, 6))):
        in_use = {life.names[-1] for life in lives}
        for life in list(lives):
            free = _free(lives, removed, in_use)
            change = draw(st.integers(0, 5))
            if change == 0 and free:
                life.names.append(draw(st.sampled_from(free)))
            elif change == 1 and _TYPES[life.type]:
                life.type = draw(st.sampled_from(_TYPES[life.type]))
            elif change == 2 and len(lives) > 1:
                lives.remove(life)
                removed |= {name.lower() for name in life.names}
        names = draw(st.lists(st.sampled_from(_NAMES), max_size=2, unique=True))
        lives += [
            Life(next(numbers), name, draw(st.sampled_from(sorted(_TYPES))))
            for name in names
            if name in _free(lives, removed, in_use)
        ]
        order = draw(st.permutations(lives))
        keeps = draw(st.booleans())
        versions.append([(life.number, life.avro(keeps_aliases=keeps)) for life in order])
    return [fields for fields in versions if fields]


@given(histories())
def test_a_field_has_one_column_as_long_as_it_lives(
    versions: list[list[tuple[int, Json]]],
) -> None:
    column_of: dict[int, str] = {}
    table: pa.Schema | None = None
    for numbered in versions:
        latest = version(fields for _, fields in numbered)
        former = None if table is None else columns_of_spark(table_json(table))
        table = latest if former is None else widened(former, latest)
        assert len({name.lower() for name in table.names}) == len(table)
        assert not {name.lower() for name in table.names} & set(FOLDERS)
        for (number, avro), column in zip(numbered, table, strict=False):
            assert (field_name(column), column.name.lower()) == (
                avro["name"],
                column_of.setdefault(number, column.name.lower()),
            )
        assert len(set(column_of.values())) == len(column_of)
        if former is not None:
            assert {name.lower() for name in former.names} <= {name.lower() for name in table.names}
        assert table_json(widened(table, latest)) == table_json(table)
        rows = pa.RecordBatch.from_arrays(
            [
                pa.array([index], pa.int64()).cast(column.type)
                if _is_number(column)
                else pa.array([None], column.type)
                for index, column in enumerate(latest)
            ],
            schema=latest,
        )
        stored = read_in_columns(rows, table)
        for index, column in enumerate(latest):
            if _is_number(column):
                assert stored.column(index)[0].as_py() == index
        # Files of the table have the names of its columns.
        assert in_columns(stored, table).equals(stored)
        assert are_same(stored.schema, table)
        assert all(given_names(column) != (column.name,) for column in table)


def _is_number(column: pa.Field) -> bool:
    return bool(pa.types.is_integer(column.type) or pa.types.is_floating(column.type))
