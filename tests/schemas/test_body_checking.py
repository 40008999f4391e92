"""Bodies that are wrong on purpose: each is a BadMessage of one line, and costs next to nothing."""

import json
import random
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.bodies.checking import MOST_BYTES, MOST_ITEMS, MOST_LEVELS
from schemas.envelope import PREFIX_SIZE, Decoder, Encoder
from schemas.errors import BadMessage
from schemas.parsing import AvroSchema, parse
from tests.schemas.avro_strategies import schemas, values
from tests.schemas.avro_texts import array, avro, enum, field, map_of, record
from tests.schemas.events import EVENTS, SCHEMAS

PREFIX = b"\0\0\0\0\1"


def read(schema: AvroSchema, body: bytes) -> Any:
    return Decoder(lambda _: schema).decode(PREFIX + body)


def holding(of: Any) -> dict[str, Any]:
    """A record with a field of that type."""
    return record(field("a", of))


def long(value: int) -> bytes:
    return Encoder(parse('"long"'), 1).encode(value)[PREFIX_SIZE:]


NULLABLE = ["null", "string"]
ENUM = enum("E", "A", "B")


@pytest.mark.parametrize(
    ("text", "body", "why"),
    [
        ("long", b"", "the data is truncated: the value does not end within 5 bytes"),
        ("long", b"\xff\xff", "the data is truncated: the value does not end within 7 bytes"),
        ("long", b"\xff" * 30 + b"\1", "byte 5: the number has more than 64 bits"),
        ("long", b"\xff" * 9 + b"\2", "byte 5: the number has more than 64 bits"),
        ("int", long(2**31), "byte 5: the number has more than 32 bits"),
        ("int", b"\x80\x80\x80\x80\x80\0", "byte 5: the number has more than 32 bits"),
        ("boolean", b"\2", "byte 5: 2 is not a boolean"),
        ("float", b"\0\0\0", "the data is truncated: the value does not end within 8 bytes"),
        ("string", long(-3) + b"abc", "byte 5: -3 is not a length"),
        ("bytes", long(2**62) + b"abc", "the data is truncated"),
        ("bytes", b"\xff" * 12, "byte 14: the number has more than 64 bits"),
        ("string", long(2) + b"\xff\xfe", "a string is not UTF-8"),
        (NULLABLE, long(-1) + b"\0", "byte 5: there is no branch -1"),
        (NULLABLE, long(2), "byte 5: there is no branch 2"),
        (ENUM, long(-1), "byte 5: there is no symbol -1"),
        (ENUM, long(2), "byte 5: there is no symbol 2"),
        ({"type": "fixed", "name": "F", "size": 3}, b"ab", "the data is truncated"),
        ("int", b"\2\2\2", "the value ends before byte 6, but the message has 8 bytes"),
        ("null", b"\0", "the value ends before byte 5, but the message has 6 bytes"),
        (array("bytes"), long(2**60) + b"abc", f"byte 14: {2**60} items do not fit"),
        (array("bytes"), long(-(2**63)) + b"\2\0", f"byte 16: {2**63} items do not fit"),
        (array("int"), b"\3\2\2\4\0", "byte 9: the block should end at byte 8"),
        (array("int"), b"\3\5\2\4\0", "byte 9: the block should end at byte 4"),
        (map_of("int"), b"\2\5abc\2\0", "byte 6: -3 is not a length"),
        (map_of("null"), long(2**50) + b"\0", f"byte 13: {2**50} items do"),
    ],
)
def test_a_wrong_body_is_refused_with_what_is_wrong(text: Any, body: bytes, why: str) -> None:
    with pytest.raises(BadMessage) as refused:
        read(avro(text), body)
    assert str(refused.value).startswith(f"with schema 1: {why}")
    assert "\n" not in str(refused.value)


def test_blocks_may_say_their_size() -> None:
    assert read(avro(array("int")), b"\3\4\2\4\1\2\6\0") == [1, 2, 3]
    assert read(avro(map_of("int")), b"\1\6\2x\2\0") == {"x": 1}


@pytest.mark.parametrize(
    "of",
    ["null", record(name="Nothing"), holding("null"), {"type": "fixed", "name": "None", "size": 0}],
)
def test_what_takes_no_byte_is_counted(of: Any) -> None:
    """Five bytes would otherwise fill the memory."""
    schema = avro(array(of))
    start = time.process_time()
    tracemalloc.start()
    try:
        for count in (MOST_ITEMS + 1, 2**40, 2**62):
            with pytest.raises(BadMessage, match="the value has more than 1,000,000 items"):
                read(schema, long(count) + b"\0")
            with pytest.raises(BadMessage, match="the value has more than 1,000,000 items"):
                read(schema, long(-count) + b"\0\0")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert time.process_time() - start < 5
    assert peak < 1_000_000
    assert len(read(schema, long(10_000) + b"\0")) == 10_000


def test_what_takes_no_byte_is_counted_over_the_whole_message() -> None:
    with pytest.raises(BadMessage, match="the value has more than 1,000,000 items"):
        read(avro(array(array("null"))), long(200) + (long(10_000) + b"\0") * 200 + b"\0")


def test_nothing_twice_as_much_at_every_level_is_counted() -> None:
    """Sixty records, each with two of the one before, and the innermost one takes no byte."""
    text = record(name="N0")
    for level in range(1, 60):
        text = record(field("a", text), field("b", f"N{level - 1}"), name=f"N{level}")
    with pytest.raises(BadMessage, match="the value has more than 1,000,000 items"):
        read(avro(text), b"")


def test_each_message_is_counted_by_itself() -> None:
    schema = avro(array("null"))
    reading = Decoder(lambda _: schema)
    for _ in range(2):
        assert len(reading.decode(PREFIX + long(600_000) + b"\0")) == 600_000


def test_items_are_counted() -> None:
    schema, body = avro(array("boolean")), long(MOST_ITEMS + 1) + bytes(MOST_ITEMS + 1) + b"\0"
    with pytest.raises(BadMessage, match="the value has more than 1,000,000 items"):
        read(schema, body)


def test_a_message_has_a_largest_size() -> None:
    body = long(MOST_BYTES) + bytes(MOST_BYTES)
    with pytest.raises(BadMessage, match=r"^the message has 16,777,225 bytes, at most 16,777,216"):
        read(parse('"bytes"'), body)


LINKED = holding(["null", "R"])
NESTED = holding(array("R"))
MAPPED = holding(map_of("R"))


@pytest.mark.parametrize(
    ("text", "level", "end"),
    [(LINKED, b"\2", b"\0"), (NESTED, b"\2", b"\0\0"), (MAPPED, b"\2\0", b"\0\0")],
    ids=["linked", "nested", "mapped"],
)
def test_recursion_ends(text: Any, level: bytes, end: bytes) -> None:
    """fastavro alone would follow it until the process dies."""
    schema = avro(text)
    deepest = level * MOST_LEVELS + (end if text is LINKED else b"\0" * (MOST_LEVELS + 1))
    value = read(schema, deepest)
    assert Encoder(schema, 1).encode(value) == PREFIX + deepest
    for body in (level + deepest + b"\0", level * 1_000_000):
        with pytest.raises(BadMessage, match="the value is nested more than 64 levels deep"):
            read(schema, body)


def test_a_level_is_left_again() -> None:
    """Wide is not deep; and what was refused leaves nothing behind."""
    schema = avro(NESTED)
    reading = Decoder(lambda _: schema)
    wide = PREFIX + long(1_000) + b"\0" * 1_001
    assert reading.decode(wide) == {"a": [{"a": []}] * 1_000}
    with pytest.raises(BadMessage, match="nested more than 64 levels deep"):
        reading.decode(PREFIX + b"\2" * 100)
    assert reading.decode(wide) == {"a": [{"a": []}] * 1_000}


def test_a_value_without_end_is_refused() -> None:
    schema = parse(json.dumps(holding("R")), strict=False)
    with pytest.raises(BadMessage, match="the value is nested more than 64 levels deep"):
        read(schema, b"")


def test_deep_types_within_recursion_end() -> None:
    """Levels in the type times levels in the value."""
    text: Any = "R"
    for _ in range(90):
        text = array(text)
    with pytest.raises(BadMessage, match="the value is nested too deeply"):
        read(avro(holding(text)), b"\2" * 100_000)


@given(st.data())
def test_any_bytes_are_a_value_or_a_bad_message(data: st.DataObject) -> None:
    text = data.draw(schemas())
    _is_value_or_bad(avro(text), data.draw(st.binary(max_size=40)))


@given(st.data())
def test_damaged_messages_are_a_value_or_a_bad_message(data: st.DataObject) -> None:
    text = data.draw(schemas())
    body = bytearray(Encoder(avro(text), 1).encode(data.draw(values(text)))[PREFIX_SIZE:])
    if body:
        place = data.draw(st.integers(0, len(body) - 1))
        body[place : place + data.draw(st.integers(0, 1))] = data.draw(st.binary(max_size=3))
    _is_value_or_bad(avro(text), bytes(body))


def _is_value_or_bad(schema: AvroSchema, body: bytes) -> None:
    try:
        value = read(schema, body)
    except BadMessage as refused:
        why = str(refused)
    else:
        # Numbers and blocks can be written in more than one way; the value is the same.
        again = Encoder(schema, 1).encode(value)[PREFIX_SIZE:]
        assert repr(read(schema, again)) == repr(value)
        return
    assert "\n" not in why


@pytest.mark.not_quick("reads very many spoilt events")
@pytest.mark.parametrize("kind", sorted(EVENTS))
def test_events_cut_short_or_changed_are_no_surprise(kind: str) -> None:
    schema = SCHEMAS[kind]
    body = Encoder(schema, 1).encode(EVENTS[kind])[PREFIX_SIZE:]
    for end in range(len(body)):
        with pytest.raises(BadMessage, match=r"truncated|items do not fit"):
            read(schema, body[:end])
    draw = random.Random(7)
    for _ in range(200):
        changed = bytearray(body)
        changed[draw.randrange(len(changed))] = draw.randrange(256)
        _is_value_or_bad(schema, bytes(changed))
