"""What is no schema is refused with a line that says where and why; nothing else is."""

import json
import string
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.errors import InvalidSchema
from schemas.parsing import parse
from tests.schemas.avro_strategies import json_values, schemas


def _assert_readable(error: InvalidSchema) -> None:
    assert str(error).isprintable()
    assert len(str(error)) < 600


def _record(*fields: Any, name: str = "shop.Order") -> str:
    return json.dumps({"type": "record", "name": name, "fields": fields})


COLOR = {"type": "enum", "name": "Color", "symbols": ["RED"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'empty: a schema is JSON, such as "string" or {"type": …}'),
        ('{\n "type": int}', "line 2, column 10: not JSON: expecting value"),
        ('"int" "long"', "line 1, column 6: there is text after the end of the schema"),
        (
            '"strng"',
            '"strng" is not a type: neither primitive nor defined here or in a reference; '
            'did you mean "string"?',
        ),
        (
            _record({"name": "customer", "type": "Customr"}, {"name": "x", "type": "int"}),
            'record shop.Order, field customer: "shop.Customr" is not a type: neither primitive '
            "nor defined here or in a reference",
        ),
        (
            _record({"name": "a", "type": {"type": ["null", "int"]}}),
            'record shop.Order, field a: "type" is a list where only a name is allowed: '
            "write the inner type alone",
        ),
        (_record({"name": "a"}), 'record shop.Order, field a: a field needs a "type"'),
        (
            _record({"name": "a-b", "type": "int"}),
            'record shop.Order, field a-b: the name "a-b" is illegal: letters, digits and _ are '
            "allowed, no digit first",
        ),
        (
            _record({"name": "a", "type": "int"}, {"name": "a", "type": "int"}),
            "record shop.Order, field a: there is another field of this name",
        ),
        (
            _record({"name": "n", "type": "int", "default": "1"}),
            'record shop.Order, field n: the default is "1", expected a whole number of 32 bits',
        ),
        (
            _record({"name": "n", "type": {"type": "array", "items": "int"}, "default": [1, None]}),
            "record shop.Order, field n: the default[1] is null, expected a whole number of 32 "
            "bits",
        ),
        (
            _record({"name": "n", "type": ["null", "int"], "default": "x"}),
            'record shop.Order, field n: the default is "x", expected a value of the union of '
            "null, int",
        ),
        (
            _record(
                {"name": "i", "type": json.loads(_record({"name": "x", "type": "int"}, name="I"))},
                {"name": "j", "type": "I", "default": {}},
            ),
            'record shop.Order, field j: the default lacks "x", which has no default of its own',
        ),
        (
            _record({"name": "u", "type": ["null", ["int"]]}),
            "record shop.Order, field u: a union cannot hold a union: write its types into the "
            "outer one",
        ),
        (
            _record(name="1"),
            'record 1: the name "1" is illegal: letters, digits and _ are allowed, no digit first',
        ),
        (
            json.dumps([COLOR, {**COLOR, "symbols": []}]),
            "enum Color: two different definitions of this type",
        ),
        ('{"type":"fixed","name":"F"}', 'fixed F: "size" is null: expected a number of bytes'),
        ("null", "null is not a type: expected a name, an object or a list"),
    ],
)
def test_a_message_says_where_and_why(text: str, message: str) -> None:
    with pytest.raises(InvalidSchema) as refused:
        parse(text)
    assert str(refused.value) == message


def test_what_is_wrong_in_a_reference_is_told_as_well() -> None:
    with pytest.raises(InvalidSchema, match=r"^enum E: an enum needs"):
        parse('"E"', ['{"type":"enum","name":"E"}'])


@pytest.mark.parametrize(
    "text",
    [
        _record({"name": "c", "type": "Color", "default": "RED"}, {"name": "d", "type": COLOR}),
        _record(
            {"name": "v", "type": "int", "default": 1},
            {"name": "next", "type": ["Order", "null"], "default": {"next": None}},
        ),
    ],
    ids=["a default of a type that comes later", "a default that holds the record itself"],
)
def test_java_trips_over_these_and_we_do_not(text: str) -> None:
    schema = parse(text)
    assert parse(schema.text) == schema


def test_a_default_that_never_ends_is_refused() -> None:
    inner = {"name": "next", "type": "shop.Order", "default": {}}
    with pytest.raises(InvalidSchema, match=r"^record shop.Order, field next: .* is infinite"):
        parse(_record(inner))
    union = {"name": "next", "type": ["Order", "null"], "default": {}}
    with pytest.raises(InvalidSchema, match=r"^record shop.Order, field next: .* is infinite"):
        parse(_record(union))


@pytest.mark.parametrize("place", ["[%s]", '{"a":%s}'])
def test_an_infinite_default_is_refused_where_its_text_could_not_be_read(place: str) -> None:
    type_ = (
        {"type": "array", "items": "double"} if "[" in place else {"type": "map", "values": "float"}
    )
    text = _record({"name": "a", "type": type_, "default": 0}).replace("0}", place % "1e400" + "}")
    with pytest.raises(InvalidSchema, match="expected a number"):
        parse(text)
    assert parse(text.replace("1e400", "1e30")).text


def test_halves_of_characters_are_refused() -> None:
    for text in ('"\udc00"', '{"type":"int","x":"\\ud800"}', '{"type":"int","x":{"\\udfff":1}}'):
        with pytest.raises(InvalidSchema, match="half a character"):
            parse(text)


# --- whatever comes

WORDS = st.sampled_from(
    [
        *("type", "name", "namespace", "fields", "symbols", "items", "values", "size", "doc"),
        *("aliases", "default", "order", "logicalType", "record", "enum", "fixed", "array", "map"),
        *("union", "error", "int", "null", "double", "A", "a.A", "", ".", "1", "é", "decimal"),
    ]
)
JUNK = st.recursive(
    json_values | WORDS | st.sampled_from([2**31, 2**64, 1e400, -1, 0]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=6),
    max_leaves=20,
)


def _parses_or_refuses(text: str, strict: bool, references: tuple[str, ...] = ()) -> None:
    try:
        schema = parse(text, references, strict=strict)
    except InvalidSchema as refused:
        _assert_readable(refused)
        return
    assert parse(schema.text, references, strict=strict) == schema
    normal = schema.normalized()
    assert normal.normalized() == normal
    assert len(schema.fingerprint) == 8


@given(
    st.text(st.sampled_from(string.printable + '"{}[]:,\\/é\0\ud800'), max_size=60), st.booleans()
)
@example("[" * 1_000_000, True)
@example('{"a":' * 200_000, True)
@example('{"type":"array","items":' * 40_000 + '"int"' + "}" * 40_000, False)
@example("/*" * 500_000, True)
@example('"\\' * 400_000, True)
@example('{"type":"int","x":' + "9" * 100_000 + "}", False)
def test_text_is_a_schema_or_invalid(text: str, strict: bool) -> None:
    _parses_or_refuses(text, strict)


@given(JUNK, st.booleans())
def test_json_is_a_schema_or_invalid(value: Any, strict: bool) -> None:
    _parses_or_refuses(json.dumps(value), strict)


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """A schema in which something has been replaced, by junk or by another part of itself."""
    schema = draw(schemas())
    places: list[tuple[Any, Any]] = []
    parts = [schema]
    for part in parts:
        keys = part if isinstance(part, dict) else range(len(part) if isinstance(part, list) else 0)
        places += [(part, key) for key in keys]
        parts += [part[key] for key in keys]
    for _ in range(draw(st.integers(1, 3)) if places else 0):
        part, key = draw(st.sampled_from(places))
        value = draw(WORDS | JUNK | st.sampled_from(parts))
        part[key] = json.loads(json.dumps(value))
    return schema


@given(damaged(), st.booleans())
def test_a_damaged_schema_is_a_schema_or_invalid(value: Any, strict: bool) -> None:
    text = json.dumps(value)
    _parses_or_refuses(text, strict)
    _parses_or_refuses('{"type":"array","items":"a.A"}', strict, (text,))
