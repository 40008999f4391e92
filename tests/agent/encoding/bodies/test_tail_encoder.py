"""What lines say, as fields of an event: conversions, defaults, unions, and what is refused."""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.encoding.bodies.json_tails import JsonTails
from agent.encoding.bodies.tail_encoder import TailEncoder
from schemas.bodies.checking import MOST_LEVELS
from schemas.envelope import Encoder
from schemas.errors import NotAnEvent
from schemas.parsing import parse
from tests.agent.encoding.batches.event_tails import (
    HEADER_BODY,
    HEADER_FIELD,
    encoded,
    event_schema,
    event_texts,
    of,
)
from tests.schemas.avro_strategies import values
from tests.schemas.events import header


def logical(type_: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": type_, "logicalType": name, **more}


FIXED = {"type": "fixed", "name": "F", "size": 3}
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
INTS = {"type": "array", "items": "int"}
POINT = {
    "type": "record",
    "name": "Point",
    "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int", "default": 5}],
}
MONEY = logical("bytes", "decimal", precision=6, scale=2)
KEY = {"type": "fixed", "name": "Key", "size": 16, "logicalType": "uuid"}
MILLIS = logical("long", "timestamp-millis")
NOON = datetime(2026, 11, 20, 12, 0, 0, 123_456, UTC)
NOON_MILLIS = 1_795_176_000_123


@pytest.mark.parametrize(
    ("type_", "said", "meant"),
    [
        ("int", "12", 12),
        ("int", " -12 ", -12),
        ("int", 7.0, 7),
        ("long", "9223372036854775807", 2**63 - 1),
        ("long", "1e3", 1000),
        ("double", "1.5", 1.5),
        ("double", ".5e1", 5.0),
        ("double", 3, 3.0),
        ("float", "-0.25", -0.25),
        ("boolean", "true", True),
        ("boolean", "FALSE", False),
        ("string", 12, "12"),
        ("string", 1.5, "1.5"),
        ("string", True, "true"),
        ("bytes", "Grüße", "Grüße".encode()),
        (FIXED, "abc", b"abc"),
        (ENUM, "B", "B"),
        (INTS, ["1", 2, 3.0], [1, 2, 3]),
        (INTS, (1,), [1]),
        ({"type": "map", "values": "long"}, {"a": "1"}, {"a": 1}),
        (POINT, {"x": "1", "z": 2}, {"x": 1, "y": 5}),
        (POINT, {"x": 1, "y": None}, {"x": 1, "y": 5}),
        (["null", "long"], "", None),
        (["null", "long"], "-", None),
        (["null", "string"], "-", "-"),
        (["null", "string"], 7, "7"),
        (["long", "null"], "7", 7),
        (["null", "long", "string"], "7", "7"),
        (["null", "long", "double"], "7.5", 7.5),
        (["null", POINT, INTS], ["1"], [1]),
        (MILLIS, "2026-11-20T12:00:00.123Z", NOON_MILLIS),
        (MILLIS, "2026-11-20 13:00:00.123456+01:00", NOON_MILLIS),
        (MILLIS, "2026-11-20T12:00:00.123", NOON_MILLIS),
        (MILLIS, NOON, NOON_MILLIS),
        (MILLIS, str(NOON_MILLIS), NOON_MILLIS),
        (MILLIS, "1969-12-31T23:59:59.9999", -1),
        (["null", MILLIS], "2026-11-20T12:00:00.123Z", NOON_MILLIS),
        (logical("long", "timestamp-micros"), NOON, NOON_MILLIS * 1000 + 456),
        (logical("long", "timestamp-nanos"), NOON, (NOON_MILLIS * 1000 + 456) * 1000),
        (logical("long", "local-timestamp-millis"), "2026-11-20T12:00:00.123Z", NOON_MILLIS),
        (logical("int", "date"), "1970-02-01", 31),
        (logical("int", "date"), date(1969, 12, 31), -1),
        (logical("int", "date"), NOON, 20_777),
        (logical("int", "time-millis"), "00:00:01.5", 1500),
        (logical("long", "time-micros"), time(0, 1), 60_000_000),
        (MONEY, "12.34", (1234).to_bytes(2, "big")),
        (MONEY, 12.34, (1234).to_bytes(2, "big")),
        (MONEY, Decimal("-0.01"), b"\xff"),
        (MONEY, 1, b"\x64"),
        (MONEY, b"\0\1", b"\0\1"),
        (logical("string", "uuid"), UUID(int=1), str(UUID(int=1))),
        (KEY, str(UUID(int=258)), UUID(int=258).bytes),
        (KEY, bytes(16), bytes(16)),
    ],
)
def test_what_a_line_says_becomes_what_the_schema_wants(type_: Any, said: Any, meant: Any) -> None:
    schema = of(field=type_)
    assert TailEncoder(schema).encode({"field": said}) == encoded(schema, {"field": meant})


@pytest.mark.parametrize(
    ("type_", "said", "why"),
    [
        ("int", "x", "field: 'x' is not an int"),
        ("int", 7.5, "field: 7.5 is not an int"),
        ("int", "7.5", "field: '7.5' is not an int"),
        ("int", "1_000", "field: '1_000' is not an int"),
        ("int", "१", "field: '१' is not an int"),
        ("int", True, "field: True is not an int"),
        ("int", 2**31, "field: 2147483648 is not a 32-bit int"),
        ("long", "9223372036854775808", "field: '9223372036854775808' is not a 64-bit long"),
        ("long", float("inf"), "field: inf is not a long"),
        ("long", "nan", "field: 'nan' is not a long"),
        ("double", "1,5", "field: '1,5' is not a double"),
        pytest.param("double", 10**400, "field: 1000", id="large"),
        pytest.param("string", 10**5000, "field: a number with thousands of", id="larger"),
        ("float", 1e39, "field: 1e+39 is not a 32-bit float"),
        ("boolean", 1, "field: 1 is not a boolean"),
        ("boolean", "yes", "field: 'yes' is not a boolean"),
        ("string", ["a"], "field: a list is not a string"),
        ("string", "\ud800", r"field: '\ud800' is not a string"),
        (FIXED, "ab", "field: 'ab' is 2 bytes long, not 3"),
        (ENUM, "C", "field: 'C' is none of A, B"),
        (ENUM, [], "field: a list is none of A, B"),
        (INTS, "1", "field: '1' is not an array"),
        (INTS, [1, "x"], "field[1]: 'x' is not an int"),
        ({"type": "map", "values": "int"}, {"a b": ""}, "field['a b']: '' is not an int"),
        ({"type": "map", "values": "int"}, 7, "field: 7 is not a map"),
        (POINT, {"y": 1}, "field.x: it is missing"),
        (POINT, {"x": None}, "field.x: it is null"),
        (POINT, "x", "field: 'x' is not a shop.Point"),
        ({"type": "array", "items": POINT}, [{"x": {}}], "field[0].x: an object is not an int"),
        ("long", None, "field: it is null"),
        (["null", "long"], "x", "field: 'x' is not a long"),
        (["null", "long", ENUM], "x", "field: 'x' is not one of long, enum"),
        (["long", "string"], None, "field: it is null"),
        (MILLIS, "yesterday", "field: 'yesterday' is not a time"),
        (MILLIS, 1.5, "field: 1.5 is not a long"),
        (logical("int", "date"), "2026-02-30", "field: '2026-02-30' is not a date"),
        (logical("int", "time-millis"), "25:00", "field: '25:00' is not a time of day"),
        (MONEY, "1.234", "field: '1.234' is not a decimal with 2 fractional digits"),
        (MONEY, "12345.00", "field: '12345.00' is not a decimal(6, 2)"),
        (MONEY, "NaN", "field: 'NaN' is not a decimal"),
        (MONEY, "1e999999999", "field: '1e999999999' is not a decimal"),
        (MONEY, "9" * 100_000, "field: '999"),
        (logical("string", "uuid"), "x", "field: 'x' is not a UUID"),
        (KEY, b"x", "field: b'x' is not a UUID"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(type_: Any, said: Any, why: str) -> None:
    with pytest.raises(ValueError) as refused:
        TailEncoder(of(field=type_)).encode({"field": said})
    assert str(refused.value).startswith(why)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("type_", "default", "missing", "null"),
    [
        ("int", 7, 7, 7),
        (["null", "int"], None, None, None),
        (["int", "null"], 7, 7, None),
        (INTS, [1], [1], [1]),
        (POINT, {"x": 3}, {"x": 3, "y": 5}, {"x": 3, "y": 5}),
        ("null", None, None, None),
    ],
)
def test_what_is_missing_has_its_default(type_: Any, default: Any, missing: Any, null: Any) -> None:
    schema = event_schema({"name": "field", "type": type_, "default": default})
    encoder = TailEncoder(schema)
    assert encoder.encode({}) == encoded(schema, {"field": missing})
    assert encoder.encode({"field": None}) == encoded(schema, {"field": null})


def test_what_may_be_null_may_be_missing() -> None:
    schema = of(field=["long", "null"])
    assert TailEncoder(schema).encode({}) == encoded(schema, {"field": None})
    with pytest.raises(ValueError, match=r"^field: it is missing$"):
        TailEncoder(of(field="long")).encode({})


def test_a_field_alone_and_fields_that_nobody_knows() -> None:
    encoder = TailEncoder(of(a="int", b="string"))
    assert encoder.names == ("a", "b")
    assert encoder.encode_field("b", 7) == b"\x027"
    assert encoder.encode({"a": 1, "b": "", "c": object()}) == b"\2\0"
    with pytest.raises(ValueError, match=r"^b: a list is not a string$"):
        encoder.encode_field("b", [])


def test_a_schema_without_header_is_none_of_events() -> None:
    with pytest.raises(NotAnEvent):
        TailEncoder(parse('{"type": "record", "name": "A", "fields": []}'))


def test_a_header_of_a_later_version_has_its_defaults() -> None:
    later = {"name": "zone", "type": "string", "default": "UTC"}
    header_type = {**HEADER_FIELD["type"], "fields": [*HEADER_FIELD["type"]["fields"], later]}
    fields = [{"name": "header", "type": header_type}, {"name": "a", "type": "int"}]
    schema = parse(json.dumps({"type": "record", "name": "E", "fields": fields}))
    encoder = TailEncoder(schema)
    tail = encoder.encode({"a": 1})
    assert tail == b"\x06UTC\2"
    assert HEADER_BODY + tail == Encoder(schema, 1).encode({"header": header(), "a": 1})[5:]
    assert JsonTails(encoder).encode([b'{"a": 1}', b'{"a": "1"}']).bodies == [tail, tail]


def test_recursion_ends_where_readers_end() -> None:
    tree = {
        "type": "record",
        "name": "Tree",
        "fields": [{"name": "next", "type": ["null", "Tree"]}],
    }
    encoder = TailEncoder(of(tree=tree))
    deep: Any = None
    for _ in range(MOST_LEVELS + 1):
        deep = {"next": deep}
    assert encoder.encode({"tree": deep}) == b"\2" * MOST_LEVELS + b"\0"
    with pytest.raises(ValueError, match=f"nested more than {MOST_LEVELS} levels"):
        encoder.encode({"tree": {"next": deep}})
    assert encoder.encode({"tree": deep}) == b"\2" * MOST_LEVELS + b"\0"


def test_unions_are_not_tried_for_ever() -> None:
    pair = {
        "type": "record",
        "name": "A",
        "fields": [
            {
                "name": "next",
                "type": [
                    "int",
                    "A",
                    {"type": "record", "name": "B", "fields": [{"name": "next", "type": "A"}]},
                ],
            }
        ],
    }
    value: Any = {"next": "no number"}
    for _ in range(60):
        value = {"next": value}
    with pytest.raises(ValueError, match="too many union branches"):
        TailEncoder(of(field=pair)).encode({"field": value})


@settings(max_examples=settings().max_examples // 2)  # schemas take long to make up
@given(st.data())
def test_values_of_the_types_are_written_as_everywhere(data: st.DataObject) -> None:
    text = data.draw(event_texts())
    schema = parse(json.dumps(text))
    value = {name: said for name, said in data.draw(values(text)).items() if name != "header"}
    assert TailEncoder(schema).encode(value) == encoded(schema, value)
