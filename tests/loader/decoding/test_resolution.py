"""What one schema wrote, read with another: examples of every rule."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from loader.decoding.decoded import Decoded
from schemas.parsing import AvroSchema
from tests.loader.decoding.decoding import (
    array,
    decode,
    enum,
    fixed,
    is_origin,
    logical,
    map_of,
    messages,
    record,
    records_of,
    rows_of,
    schema,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def reread(writer: AvroSchema, reader: AvroSchema, *written: Any) -> Decoded:
    return decode(reader, records_of(messages(writer, 1, written)), {1: writer})


def rows(decoded: Decoded) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in row.items() if not is_origin(name)}
        for row in rows_of(decoded)
    ]


def field(writer: Any, reader: Any, *written: Any) -> list[Any]:
    decoded = reread(
        schema(("x", writer)), schema(("x", reader)), *({"x": each} for each in written)
    )
    assert decoded.dead == ()
    return [row["x"] for row in rows_of(decoded)]


def decimal(of: str = "bytes", precision: int = 4, scale: int = 2, **more: Any) -> Any:
    return {"type": of, "logicalType": "decimal", "precision": precision, "scale": scale, **more}


@pytest.mark.parametrize(
    ("writer", "reader", "written", "read"),
    [
        ("int", "long", 7, 7),
        ("int", "float", 7, 7.0),
        ("int", "double", 7, 7.0),
        ("long", "float", 2**40, float(2**40)),
        ("long", "double", 2**53 + 1, float(2**53)),
        ("float", "double", 0.5, 0.5),
        ("string", "bytes", "ü", "ü".encode()),
        ("bytes", "string", "ü".encode(), "ü"),
        ("int", ["null", "long"], 7, 7),
        (["null", "int"], ["null", "double"], 7, 7.0),
        (["null", "int"], ["null", "double"], None, None),
        (["null", "int"], "long", 7, 7),
        (["int", "string"], "string", "a", "a"),
        ("int", ["float", "int"], 7, {"member_float": None, "member_int": 7}),
        ("int", ["float", "double"], 7, 7.0),
        ("int", ["string", "double"], 7, {"member_string": None, "member_double": 7.0}),
        (
            ["string", "int", "null"],
            ["int", "null", "string"],
            "a",
            {"member_int": None, "member_string": "a"},
        ),
        (
            ["string", "int", "null"],
            ["int", "null", "string"],
            7,
            {"member_int": 7, "member_string": None},
        ),
        (["string", "int", "null"], ["int", "null", "string"], None, None),
        (["string", "bytes"], "bytes", b"\xff", b"\xff"),
        (["string", "bytes"], "bytes", "a", b"a"),
        (array("int"), array(["null", "double"]), [1], [1.0]),
        (map_of("int"), map_of("long"), {"a": 1}, [("a", 1)]),
        (enum("A", "B"), enum("B", "A"), "B", "B"),
        (enum("A", "B"), enum("A", default="A"), "B", "A"),
        ("null", ["null", "int"], None, None),
        ("null", "null", None, None),
        (decimal(), decimal(precision=9, scale=4), b"\x04\xd2", Decimal("12.3400")),
        (decimal(), decimal(precision=3, scale=1), b"\x04\xce", Decimal("12.3")),
        (decimal(), decimal(precision=40, scale=4), b"\xff", b"\x9c"),
        (decimal(), ["null", decimal(precision=9, scale=4)], b"\xff", Decimal("-0.0100")),
        (array(decimal()), array(decimal(precision=9, scale=3)), [b"\1"], [Decimal("0.010")]),
        (map_of(decimal()), map_of(decimal(scale=3)), {"a": b"\1"}, [("a", Decimal("0.010"))]),
        (
            ["null", record("Q", ("a", decimal()))],
            ["null", record("Q", ("a", decimal(scale=3)))],
            {"a": b"\1"},
            {"a": Decimal("0.010")},
        ),
        (
            ["string", decimal()],
            [decimal(scale=3), "string"],
            b"\1",
            {"member_bytes": Decimal("0.010"), "member_string": None},
        ),
        (
            decimal("fixed", size=3, name="F"),
            decimal("fixed", scale=3, size=3, name="F"),
            b"\xff\xff\xff",
            Decimal("-0.010"),
        ),
        (logical("int", "time-millis"), logical("long", "time-micros"), 86_399_999, 86_399_999_000),
        (logical("long", "timestamp-micros"), logical("long", "timestamp-nanos"), -7, -7_000),
        (logical("long", "timestamp-nanos"), logical("long", "timestamp-micros"), 0, EPOCH),
        (
            logical("long", "local-timestamp-micros"),
            logical("long", "local-timestamp-millis"),
            -1_000_000,
            EPOCH.replace(tzinfo=None) - timedelta(seconds=1),
        ),
        (
            ["int", logical("long", "timestamp-millis")],
            ["int", logical("long", "timestamp-micros")],
            2**40,
            2**40 * 1000,
        ),
        (
            decimal("fixed", size=3, name="F"),
            decimal("fixed", size=3, name="F"),
            b"\xff\xff\xff",
            Decimal("-0.01"),
        ),
        (fixed(8), fixed(8), bytes(range(8)), bytes(range(8))),
        (fixed(12), fixed(12), b"\xff" * 12, b"\xff" * 12),
        (fixed(16), ["null", fixed(16)], b"0123456789abcdef", b"0123456789abcdef"),
        (fixed(68), fixed(68), b"x" * 68, b"x" * 68),
        (["null", fixed(4)], ["null", fixed(4)], None, None),
        (["null", fixed(20)], ["null", fixed(20)], b"a" * 20, b"a" * 20),
        (logical("int", "date"), logical("int", "date"), 7, date(1970, 1, 8)),
        (logical("string", "uuid"), "string", "a", "a"),
        (["null", array("string")], array("string"), [], []),
    ],
)
def test_values(writer: Any, reader: Any, written: Any, read: Any) -> None:
    (found,) = field(writer, reader, written)
    assert found == read
    assert type(found) is type(read)


@pytest.mark.parametrize(
    ("writer", "reader", "good", "bad", "why"),
    [
        (["null", "int"], "int", 7, None, "no branch for"),
        (["int", "string"], "int", 7, "a", "string"),
        (enum("A", "B"), enum("A"), "A", "B", "no symbol B"),
        ("bytes", "string", b"a", b"\xff", "not UTF-8"),
        (decimal(), decimal(), b"\x27\x0f", b"\x27\x10", "decimal"),
        (decimal(), decimal(), b"\xd8\xf1", b"\xd8\xf0", "decimal"),
        (decimal(), decimal(), b"\0", b"", "decimal"),
        (logical("int", "date"), logical("int", "date"), 2_932_896, 2_932_897, "2932897"),
        (decimal(), decimal(scale=1), b"\x0a", b"\x0b", "not exact as decimal(4,1)"),
        (decimal(), decimal(scale=3), b"\x03\xe7", b"\x03\xe8", "fit into decimal(4,3)"),
        (decimal(), decimal(precision=3), b"\x03\xe7", b"\x03\xe8", "fit into decimal(3,2)"),
        (array(decimal()), array(decimal(scale=1)), [b"\x0a"], [b"\x0a", b"\x0b"], "not exact"),
        (
            logical("long", "timestamp-micros"),
            logical("long", "timestamp-millis"),
            -1000,
            -1001,
            "-1001 is not exact as timestamp-millis",
        ),
        (
            logical("long", "timestamp-micros"),
            logical("long", "timestamp-nanos"),
            2**63 // 1000,
            2**63 // 1000 + 1,
            "is not a timestamp-nanos",
        ),
        (array(["int", "string"]), array("int"), [1, 2], [1, "a"], "string"),
        (
            map_of(enum("A", "B")),
            map_of(enum("A")),
            {"a": "A"},
            {"a": "A", "b": "B"},
            "no symbol B",
        ),
        (array("int"), array("string"), [], [1], "int"),
        (["null", enum("A", "B")], ["null", enum("A")], None, "B", "no symbol B"),
    ],
)
def test_only_what_does_not_fit_is_dead(
    writer: Any, reader: Any, good: Any, bad: Any, why: str
) -> None:
    written = [{"x": each} for each in (good, bad, good)]
    decoded = reread(schema(("x", writer)), schema(("x", reader)), *written)
    assert [row["_offset"] for row in rows_of(decoded)] == [0, 2]
    (dead,) = decoded.dead
    assert dead.offset == 1
    assert dead.reason in {"not resolvable", "out of range"}
    assert why in dead.detail
    assert dead.value is not None


@pytest.mark.parametrize(
    ("writer", "reader", "event"),
    [
        (schema(("x", "string")), schema(("x", "int")), {"x": "a"}),
        (schema(("x", "long")), schema(("x", "int")), {"x": 1}),
        (schema(), schema(("x", "int")), {}),
        (schema(name="A"), schema(name="B"), {}),
        (schema(("x", fixed(2))), schema(("x", fixed(3))), {"x": b"ab"}),
        (schema(("x", "string")), schema(("x", decimal())), {"x": "a"}),
        (schema(("x", "bytes")), schema(("x", decimal())), {"x": b"a"}),
        (schema(("x", decimal())), schema(("x", "bytes")), {"x": b"a"}),
        (schema(("x", decimal())), schema(("x", logical("bytes", "big-decimal"))), {"x": b"a"}),
        (schema(("x", logical("int", "date"))), schema(("x", "int")), {"x": 1}),
        (schema(("x", "long")), schema(("x", logical("long", "timestamp-millis"))), {"x": 1}),
        (
            schema(("x", logical("int", "date"))),
            schema(("x", logical("long", "timestamp-millis"))),
            {"x": 1},
        ),
        (
            schema(("x", logical("int", "date"))),
            schema(("x", ["int", "long"])),
            {"x": 1},
        ),
    ],
)
def test_what_can_never_be_read_is_dead_and_says_why(
    writer: AvroSchema, reader: AvroSchema, event: Any
) -> None:
    decoded = reread(writer, reader, event, event)
    assert decoded.rows is None
    assert [dead.reason for dead in decoded.dead] == ["not resolvable"] * 2
    assert decoded.dead[0].detail


def test_fields_are_found_by_name_and_alias_in_any_order() -> None:
    writer = schema(("a", "int"), ("b", "int"), ("gone", "string"))
    reader = schema({"name": "c", "type": "int", "aliases": ["b"]}, ("a", "long"))
    assert rows(reread(writer, reader, {"a": 1, "b": 2, "gone": "x"})) == [{"c": 2, "a": 1}]


def test_two_fields_that_were_one_may_want_different_parts_of_it() -> None:
    def records(name: str, *fields: str, **more: Any) -> Any:
        return array(record(name, *((each, "long") for each in fields), **more))

    other = {"name": "b", "aliases": ["a"], "type": records("B", "y", "x", aliases=["A"])}
    decoded = reread(
        schema(("a", records("A", "x", "y", "z"))),
        schema(("a", records("A", "z")), other),
        {"a": [{"x": 1, "y": 2, "z": 3}]},
    )
    assert rows(decoded) == [{"a": [{"z": 3}], "b": [{"y": 2, "x": 1}]}]


def test_records_are_found_by_name_without_namespace_and_by_alias() -> None:
    writer = schema(("a", "int"), name="old.Name", namespace="old")
    for reader in (
        schema(("a", "int"), name="new.Name"),
        schema(("a", "int"), name="X", aliases=["old.Name"]),
    ):
        assert rows(reread(writer, reader, {"a": 1})) == [{"a": 1}]


@pytest.mark.parametrize(
    ("type_", "default", "value"),
    [
        ("int", 7, 7),
        ("double", 7, 7.0),
        ("bytes", "\xff", b"\xff"),
        (["null", "int"], None, None),
        (["int", "null"], 3, 3),
        (["int", "string"], 3, {"member_int": 3, "member_string": None}),
        (array("int"), [1, 2], [1, 2]),
        (map_of("int"), {"a": 1}, [("a", 1)]),
        (enum("A", "B"), "B", "B"),
        (decimal(), "\x04\xd2", Decimal("12.34")),
        (
            record("Q", ("a", "int"), {"name": "b", "type": "string", "default": "z"}),
            {"a": 1},
            {"a": 1, "b": "z"},
        ),
    ],
)
def test_defaults(type_: Any, default: Any, value: Any) -> None:
    reader = schema(("a", "int"), {"name": "x", "type": type_, "default": default})
    assert rows(reread(schema(("a", "int")), reader, *({"a": at} for at in range(3)))) == [
        {"a": at, "x": value} for at in range(3)
    ]


def test_a_default_that_is_no_value_is_none() -> None:
    reader = schema({"name": "x", "type": "int", "default": "seven"})
    decoded = reread(schema(), reader, {})
    assert "default of x cannot be used" in decoded.dead[0].detail


def test_a_writer_that_contains_itself_is_read_as_far_as_columns_go() -> None:
    writer = schema(("a", "int"), ("next", ["null", "R"]))
    events = [{"a": 1, "next": {"a": 2, "next": None}}, {"a": 3, "next": None}]
    assert rows(reread(writer, schema(("a", "long")), *events)) == [{"a": 1}, {"a": 3}]


def test_of_a_map_s_key_that_comes_twice_the_last_counts() -> None:
    writer = schema(("x", map_of("int")), ("after", "string"))
    body = b"\0\0\0\0\1" + b"\6\2a\2\2b\4\2a\6\0" + b"\2z"
    single = b"\0\0\0\0\1" + b"\2\2a\2\0" + b"\2z"
    for written in ([body], [single, body], [single, single]):
        found = rows_of(decode(writer, records_of(written)))
        maps = {id(body): [("a", 3), ("b", 2)], id(single): [("a", 1)]}
        assert [row["x"] for row in found] == [maps[id(each)] for each in written]
        assert all(row["after"] == "z" for row in found)


def test_what_lies_in_another_branch_or_under_null_need_not_fit() -> None:
    inner = dated = record("Q", ("day", logical("int", "date")))
    written = [{"x": None}, {"x": {"day": 2**31 - 1}}, {"x": "a"}]
    decoded = reread(
        schema(("x", ["null", inner, "string"])), schema(("x", ["null", dated, "string"])), *written
    )
    assert [row["_offset"] for row in rows_of(decoded)] == [0, 2]
    assert [dead.reason for dead in decoded.dead] == ["out of range"]


@pytest.mark.parametrize("reader", [["a", "b"], ["b", "a"]])
def test_of_types_that_differ_in_namespace_each_is_itself(reader: list[str]) -> None:
    def orders(spaces: list[str]) -> Any:
        return [record(f"{space}.Order", (f"of_{space}", "int")) for space in spaces]

    members = {space: f"member_Order{'_' * place}" for place, space in enumerate(reader)}
    first, second = field(orders(["a", "b"]), orders(reader), {"of_a": 1}, {"of_b": 2})
    assert first == {members["a"]: {"of_a": 1}, members["b"]: None}
    assert second == {members["a"]: None, members["b"]: {"of_b": 2}}


def test_null_in_a_union_that_is_read_row_by_row() -> None:
    both = schema(("x", ["null", "boolean", "int"]), ("y", fixed(3)))
    written = [{"x": each, "y": b"abc"} for each in (None, False, 0)]
    assert [row["x"] for row in rows(reread(both, both, *written))] == [
        None,
        {"member_boolean": False, "member_int": None},
        {"member_boolean": None, "member_int": 0},
    ]


@pytest.mark.not_quick("goes as far as a bound on effort")
def test_schemas_that_entangle_without_end_are_refused() -> None:
    branches = [record(f"n{n}.Q", ("x", ["null", "int"])) for n in range(30)]
    inner = record("Q", ("x", ["null", "int"]))
    for level in range(4):
        below = "Q" if level == 0 else f"L{level - 1}"
        others = [f"n{m}.{below}" for m in range(30)]
        branches = [record(f"n{n}.L{level}", ("x", others if n else branches)) for n in range(30)]
        inner = record(f"L{level}", ("x", inner))
    writer, reader = schema(("x", branches)), schema(("x", inner))
    decoded = decode(reader, records_of([b"\0\0\0\0\1\0\0\0\0\0\0\0"]), {1: writer})
    assert [dead.reason for dead in decoded.dead] == ["schema cannot be used"]
    assert "too many pairs of types" in decoded.dead[0].detail
