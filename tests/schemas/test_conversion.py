"""Bodies of one schema made of what was written with another."""

import io
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.bodies.checking import BodyCheck
from schemas.conversion import Conversion, MessageConverter
from schemas.envelope import PREFIX_SIZE, Encoder, prefix
from schemas.errors import BadMessage
from tests.schemas.avro_strategies import schemas, values
from tests.schemas.avro_texts import array, avro, enum, field, map_of, record
from tests.schemas.events import EVENTS, SCHEMAS


def body(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def decimal(precision: int, scale: int, of: str = "bytes", **more: Any) -> Any:
    return {"type": of, "logicalType": "decimal", "precision": precision, "scale": scale, **more}


def plain(json_: Any) -> Any:
    """A schema without logical types, which fastavro would apply."""
    if isinstance(json_, dict):
        return {key: plain(value) for key, value in json_.items() if key != "logicalType"}
    return [plain(item) for item in json_] if isinstance(json_, list) else json_


A = record(field("x", "int"), name="A")
B = record(field("x", "int"), name="B")


def test_what_differs_in_words_only_is_taken_as_it_is() -> None:
    old = avro(record(field("x", "long")))
    new = avro(record(field("x", {"type": "long", "logicalType": "date-x"}, doc="!", default=1)))
    conversion = Conversion(old, new)
    assert conversion.is_copy
    one = b"\x02"
    assert conversion.converted(one) is one


@pytest.mark.parametrize(
    ("writer", "target", "value", "expected"),
    [
        ("int", "double", 3, 3.0),
        ("string", "bytes", "ü", "ü".encode()),
        (
            record(field("a", "int"), field("b", "string")),
            record(field("b", "string"), field("c", "long", default=7)),
            {"a": 1, "b": "x"},
            {"b": "x", "c": 7},
        ),
        (record(field("a", "int")), record(field("z", "long", aliases=["a"])), {"a": 1}, {"z": 1}),
        # Two records that look alike: the second stays the second.
        (
            record(field("u", [A, B]), field("gone", "int")),
            record(field("u", ["null", A, B])),
            {"u": ("B", {"x": 1}), "gone": 0},
            {"u": ("B", {"x": 1})},
        ),
        # A union's branch becomes the whole, and has a union of its own inside.
        (
            record(field("a", ["null", record(field("u", ["null", A, B]), name="I")])),
            record(field("a", record(field("u", [A, B, "null"]), name="I"))),
            {"a": {"u": ("B", {"x": 5})}},
            {"a": {"u": ("B", {"x": 5})}},
        ),
        (
            record(field("a", ["null", array(["null", A])])),
            record(field("a", [array(A), "null"])),
            {"a": [{"x": 1}, {"x": 2}]},
            {"a": [{"x": 1}, {"x": 2}]},
        ),
        (
            record(field("a", map_of(["null", "int", A]))),
            record(field("a", ["null", map_of([A, "long"])])),
            {"a": {"k": {"x": 1}, "l": 2}},
            {"a": {"k": {"x": 1}, "l": 2}},
        ),
        (enum("E", "P", "Q"), enum("E", "P", "O", default="O"), "Q", "O"),
        # Other units: the first differ in nothing else.
        (decimal(12, 2), decimal(12, 4), b"\x04\xd2", b"\x01\xe2\x08"),
        (decimal(12, 4), decimal(12, 2), b"\x01\xe2\x08", b"\x04\xd2"),
        (["null", decimal(12, 2)], ["null", decimal(12, 3)], b"\xff", b"\xf6"),
        (
            array(decimal(9, 2, "fixed", size=4, name="F")),
            array(decimal(9, 3, "fixed", size=4, name="F")),
            [b"\0\0\0\1"],
            [b"\0\0\0\x0a"],
        ),
        (
            record(field("a", map_of({"type": "int", "logicalType": "time-millis"}))),
            record(field("a", map_of({"type": "long", "logicalType": "time-micros"}))),
            {"a": {"k": 86_399_999}},
            {"a": {"k": 86_399_999_000}},
        ),
        (
            record(field("a", "int"), field("b", "string"), field("c", decimal(9, 2))),
            record(field("a", "double"), field("b", "bytes"), field("c", decimal(9, 3))),
            {"a": 3, "b": "x", "c": b"\1"},
            {"a": 3.0, "b": b"x", "c": b"\x0a"},
        ),
    ],
)
def test_what_is_different_is_resolved(writer: Any, target: Any, value: Any, expected: Any) -> None:
    conversion = Conversion(avro(writer), avro(target))
    assert not conversion.is_copy
    assert conversion.converted(body(plain(writer), value)) == body(plain(target), expected)


@pytest.mark.parametrize(
    ("writer", "target", "value"),
    [
        ("string", "int", "x"),
        (["null", "string"], "string", None),
        (record(field("a", "int")), record(field("b", "int")), {"a": 1}),
        (enum("E", "P", "Q"), enum("E", "P"), "Q"),
        (decimal(12, 2), decimal(12, 1), b"\1"),
        (decimal(12, 2), decimal(4, 3), b"\x04\xd2"),
        (decimal(12, 2), "bytes", b"\1"),
        ({"type": "int", "logicalType": "date"}, "long", 1),
    ],
)
def test_what_cannot_be_resolved_is_a_bad_message(writer: Any, target: Any, value: Any) -> None:
    conversion = Conversion(avro(writer), avro(target))
    with pytest.raises(BadMessage, match="cannot be converted to the requested schema"):
        conversion.converted(body(plain(writer), value))


@given(st.data())
def test_a_body_says_the_same_afterwards(data: st.DataObject) -> None:
    """A field is added at the end, so nothing is taken as it is.

    The outer record has no namespace, which inner types would take on, and a name longer than drawn
    ones are.
    """
    inner = data.draw(schemas())
    value = data.draw(values(inner))
    more = field("n", "int", default=0)
    writer, target = (
        avro(record(field("v", inner), *fields, name="Outermost")) for fields in ((), (more,))
    )
    before = Encoder(writer, 1).encode({"v": value})[PREFIX_SIZE:]
    assert Conversion(writer, target).converted(before) == before + b"\0"


@pytest.mark.parametrize("name", SCHEMAS)
def test_messages_become_bodies(name: str) -> None:
    schema = SCHEMAS[name]
    message = Encoder(schema, 7).encode(EVENTS[name])
    converter = MessageConverter({7: schema}.get, schema)
    assert converter.body(message) == message[PREFIX_SIZE:]


def test_what_is_no_message_says_so() -> None:
    schema = avro("string")
    converter = MessageConverter({7: schema}.get, schema)
    for message, why in [
        (None, "the message has no value"),
        (b"text", "the message has 4 bytes, at least 5"),
        (b"texts", "begins with byte 116"),
        (prefix(8) + b"\0", "there is no schema 8"),
        (prefix(7) + b"\4a", "with schema 7: the data is truncated"),
        (prefix(7) + b"\2ab", "with schema 7: the value ends before byte 7"),
        (prefix(7) + b"\2\xff", "with schema 7: byte 5: a string is not UTF-8"),
        (prefix(7) + bytes(17 * 1024 * 1024), "16,777,216 are allowed"),
    ]:
        with pytest.raises(BadMessage, match=why):
            converter.body(message)


def test_text_is_looked_at_where_nobody_reads_it() -> None:
    of = avro(map_of("string")).type
    good, bad_key, bad_value = b"\2\2k\2v\0", b"\2\2\xff\2v\0", b"\2\2k\4v\xff\0"
    for check in (BodyCheck(of), BodyCheck(of, text=True)):
        check.check(good, 0)
    for bad in (bad_key, bad_value):
        BodyCheck(of).check(bad, 0)
        with pytest.raises(BadMessage, match="a string is not UTF-8"):
            BodyCheck(of, text=True).check(bad, 0)


def test_values_follow_each_other() -> None:
    check = BodyCheck(avro("string").type)
    data = b"\2a\0\4bc"
    assert [check.end_of(data, 0), check.end_of(data, 2), check.end_of(data, 3)] == [2, 3, 6]
    with pytest.raises(BadMessage, match="the data is truncated"):
        check.end_of(data, 6)
