"""Values as bodies: what is refused, in which words, and what a union takes."""

import json
from array import array as python_array
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.bodies.checking import MOST_LEVELS
from schemas.envelope import PREFIX_SIZE, Decoder, Encoder
from schemas.errors import BadMessage, InvalidSchema
from schemas.parsing import parse
from tests.schemas import avro_texts
from tests.schemas.avro_strategies import json_values, schemas
from tests.schemas.avro_texts import array, avro, enum, map_of
from tests.schemas.events import EVENTS, SCHEMAS, header


def body(text: Any, value: Any) -> bytes:
    return Encoder(avro(text), 1).encode(value)[PREFIX_SIZE:]


def record(*fields: Any) -> dict[str, Any]:
    return avro_texts.record(*fields, name="shop.R")


INTS = map_of("int")
FIXED = {"type": "fixed", "name": "F", "size": 3}
ENUM = enum("E", "A", "B")
A = {"name": "a", "type": "int"}


@pytest.mark.parametrize(
    ("text", "value", "why"),
    [
        ("null", 0, "the value: 0 is not null"),
        ("boolean", "no", "the value: 'no' is not a boolean"),
        ("boolean", 1, "the value: 1 is not a boolean"),
        ("int", 2**31, "the value: 2147483648 is not an int"),
        ("int", True, "the value: True is not an int"),
        ("int", 7.0, "the value: 7.0 is not an int"),
        ("int", "7", "the value: '7' is not an int"),
        ("long", 2**63, "the value: 9223372036854775808 is not a long"),
        ("long", None, "the value: None is not a long"),
        ("float", 1e39, "the value: 1e+39 is not a float"),
        ("float", "1.5", "the value: '1.5' is not a float"),
        pytest.param("double", 10**400, "the value: 1000", id="large"),
        pytest.param("double", 10**5000, "the value: a value of class int is no", id="larger"),
        pytest.param("long", 10**5000, "the value: a value of class int is no", id="no long"),
        ("double", False, "the value: False is not a double"),
        ("string", b"abc", "the value: b'abc' is not a string"),
        ("string", "\ud800", r"the value: '\ud800' is not a string"),
        ("long", "ein\nGruß\u2028", r"the value: 'ein\nGruß\u2028' is not a long"),
        ("string", "x" * 99 + "\udfff", f"the value: '{'x' * 56}... is not a string"),
        ("bytes", "abc", "the value: 'abc' is not bytes"),
        (FIXED, b"ab", "the value: b'ab' is not 3 bytes"),
        (FIXED, "abc", "the value: 'abc' is not 3 bytes"),
        (ENUM, "C", "the value: 'C' is none of A, B"),
        (ENUM, ["A"], "the value: ['A'] is none of A, B"),
        (array("string"), "abc", "the value: 'abc' is not an array"),
        (array("int"), [1, 2, "x"], "[2]: 'x' is not an int"),
        (array("int"), {}, "the value: {} is not an array"),
        (INTS, [], "the value: [] is not a map"),
        (INTS, [("a", 1)], "the value: [('a', 1)] is not a map"),
        (INTS, {"a": 1, "b": None}, "['b']: None is not an int"),
        (INTS, {1: 1}, "the value: 1 is not a string: map keys must be strings"),
        (record(), [], "the value: [] is not a shop.R"),
        (record(A), "a", "the value: 'a' is not a shop.R"),
        (record(A), {}, "a: it is missing"),
        (record(A), {"a": 1, "b": 2}, "shop.R: there is no field 'b'"),
        (record({"name": "x", "type": array(INTS)}), {"x": [{}, {"k": ""}]}, "x[1]['k']: '' is no"),
        (["null", "int"], "x", "the value: 'x' is none of null, int"),
        (["int", "string", FIXED], None, "the value: None is none of int, string, F"),
        (["null", array("int")], [1, None], "[1]: None is not an int"),
        (["null", record(A), "string"], {"a": "x"}, "a: 'x' is not an int"),
    ],
)
def test_what_is_not_of_its_type_is_refused(text: Any, value: Any, why: str) -> None:
    with pytest.raises(BadMessage) as refused:
        body(text, value)
    assert str(refused.value).startswith(why)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("branches", "value", "branch"),
    [
        (["long", "int"], 7, 0),
        (["int", "long"], 2**40, 1),
        (["double", "long"], 7, 1),
        (["float", "double"], 0.5, 1),
        (["string", "float"], 0.5, 1),
        (["float", "double"], 7, 1),
        (["boolean", "int"], 1, 1),
        (["int", "boolean"], True, 1),
        ([ENUM, "string"], "A", 0),
        ([ENUM, "string"], "Z", 1),
        (["string", ENUM], "A", 0),
        ([FIXED, "bytes"], b"abc", 0),
        ([FIXED, "bytes"], bytearray(b"abcd"), 1),
        ([INTS, record(A)], {"a": 1}, 0),
        ([record(A), INTS], {"a": 1, "b": 2}, 1),
        (["null", record(A), INTS], OrderedDict(a=1), 1),
        (["null", "long", array("long")], (1, 2), 2),
        (["null", "long"], None, 0),
        (["long", "null"], None, 1),
    ],
)
def test_a_union_takes_the_branch_that_fits(branches: Any, value: Any, branch: int) -> None:
    assert body(branches, value)[0] == branch * 2


def test_other_classes_of_values_are_written_as_what_they_are() -> None:
    class Number(int):
        pass

    assert body("int", Number(7)) == body("int", 7)
    assert body(["null", "int", "string"], Number(7)) == b"\2\x0e"
    assert body(array("long"), python_array("q", [1, -1])) == body(array("long"), [1, -1])
    assert body("bytes", memoryview(b"abc")) == body("bytes", b"abc")
    assert body("bytes", python_array("H", [1, 2])) == b"\x08\1\0\2\0"


@pytest.mark.parametrize(
    ("of", "default", "value"),
    [
        ("int", 7, 7),
        ("double", 1, 1.0),
        ("bytes", "\u00ff", b"\xff"),
        (FIXED, "abc", b"abc"),
        (ENUM, "B", "B"),
        (array("bytes"), ["x"], [b"x"]),
        (["null", "bytes"], None, None),
        (["bytes", "null"], "x", b"x"),
        (record(A | {"default": 3}), {}, {"a": 3}),
    ],
)
def test_a_missing_field_has_its_default(of: Any, default: Any, value: Any) -> None:
    b = avro_texts.field("b", of, default=default)
    schema = avro(avro_texts.record(A, b, name="Outer"))
    message = Encoder(schema, 1).encode({"a": 1})
    assert message == Encoder(schema, 1).encode({"a": 1, "b": value})
    assert Decoder(lambda _: schema).decode(message) == {"a": 1, "b": value}
    with pytest.raises(BadMessage, match=r"^Outer: there is no field 'c'$"):
        Encoder(schema, 1).encode({"a": 1, "c": 2})


def test_an_old_schemas_default_that_is_none_is_said() -> None:
    text = json.dumps(record(A | {"default": "x"}))
    with pytest.raises(InvalidSchema, match=r"^the default of a cannot be used$"):
        Encoder(parse(text, strict=False), 1)


def test_ledger_entries_are_written_with_what_they_say_and_no_more() -> None:
    entry = {"header": header(), "version": 1, "tier": "agent", "cluster": "dc1"}
    message = Encoder(SCHEMAS["Ledger"], 1).encode(entry)
    read = Decoder(lambda _: SCHEMAS["Ledger"]).decode(message)
    assert set(read) == set(EVENTS["Ledger"])
    assert {key: read[key] for key in entry} == entry
    assert (read["passages"], read["run"], read["window_millis"]) == ([], -1, 60_000)


def test_what_is_nested_without_end_is_refused() -> None:
    linked = Encoder(avro(record({"name": "next", "type": ["null", "shop.R"]})), 1)
    value: Any = None
    for _ in range(MOST_LEVELS + 1):
        value = {"next": value}
    linked.encode(value)
    for _ in range(100_000):
        value = {"next": value}
    with pytest.raises(BadMessage, match="nested too deeply"):
        linked.encode(value)
    round_and_round: dict[str, Any] = {}
    round_and_round["next"] = round_and_round
    with pytest.raises(BadMessage, match="nested too deeply"):
        linked.encode(round_and_round)
    assert linked.encode({"next": None}) == b"\0\0\0\0\1\0"
    while value:
        value = value["next"]  # not all at once: Python, too, goes down as deep to let go of it


def test_branches_that_nearly_fit_are_not_tried_for_ever() -> None:
    """Each level has two branches, and both fail at the bottom: 2^64 ways to be wrong."""
    twins: list[dict[str, Any]] = [
        {"type": "record", "name": name, "fields": [{"name": "x", "type": ["int", "L", "R"]}]}
        for name in ("L", "R")
    ]
    twins[0]["fields"][0]["type"] = ["int", "L", twins[1]]
    encoder = Encoder(avro(["null", "int", twins[0], "R"]), 1)
    value: Any = 7
    for _ in range(60):
        value = {"x": value}
    encoder.encode(value)
    value = "not a number"
    for _ in range(60):
        value = {"x": value}
    with pytest.raises(BadMessage, match="nearly matches too many union branches"):
        encoder.encode(value)


@given(st.data())
def test_any_value_is_written_or_refused(data: st.DataObject) -> None:
    schema, value = avro(data.draw(schemas())), data.draw(json_values)
    encoder = Encoder(schema, 1)
    try:
        message = encoder.encode(value)
    except BadMessage as refused:
        why = str(refused)
    else:
        assert encoder.encode(Decoder(lambda _: schema).decode(message)) == message
        return
    assert "\n" not in why
    assert "cannot be written" not in why, "no words for what is wrong"
