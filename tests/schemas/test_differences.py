"""What is different between two schemas, change by change."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.differences import differences
from schemas.errors import InvalidSchema
from schemas.parsing import AvroSchema, parse
from tests.schemas import avro_texts
from tests.schemas.avro_strategies import schemas
from tests.schemas.avro_texts import array, avro, map_of
from tests.schemas.avro_texts import field as f


def said_of(old: AvroSchema, new: AvroSchema) -> list[str]:
    signs = {"added": "+", "removed": "-", "changed": "~"}
    return [f"{signs[each.kind]} {each.path}: {each.what}" for each in differences(old, new)]


def told(old: Any, new: Any) -> list[str]:
    return said_of(avro(old), avro(new))


def record(*fields: dict[str, Any], name: str = "x.Page", **more: Any) -> dict[str, Any]:
    return avro_texts.record(*fields, name=name, **more)


ENUM = {"type": "enum", "name": "E"}
FIXED = {"type": "fixed", "name": "F"}
TIME = {"type": "long", "logicalType": "timestamp-millis"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9}
A = f("a", "int")

CHANGES = [
    # fields
    ([A], [A, f("b", "string")], ["+ b: string"]),
    ([A], [A, f("b", ["null", "string"], default=None)], ["+ b: null or string, default null"]),
    ([A, f("b", TIME, default=0)], [A], ["- b: long (timestamp-millis), default 0"]),
    ([A, f("b", "int")], [f("b", "int"), A], ["~ : fields in another order"]),
    (
        [A, f("b", "int"), f("c", "int")],
        [f("d", "int"), A, f("c", "int")],
        ["+ d: int", "- b: int"],
    ),
    ([A], [f("b", "int", aliases=["a"])], ["~ b: renamed from a", '+ b: aliases ["a"]']),
    # types
    ([A], [f("a", "long")], ["~ a: int → long"]),
    ([A], [f("a", ["null", "int"])], ["~ a: int → null or int"]),
    ([f("a", ["null", "int"])], [f("a", ["int", "null"])], ["~ a: null or int → int or null"]),
    ([f("a", "long")], [f("a", TIME)], ["~ a: long → long (timestamp-millis)"]),
    (
        [f("a", DECIMAL)],
        [f("a", {**DECIMAL, "scale": 2})],
        ["~ a: bytes (decimal 9,0) → bytes (decimal 9,2)"],
    ),
    ([f("a", array("int"))], [f("a", map_of("int"))], ["~ a: array of int → map of int"]),
    (
        [f("a", array(map_of("int")))],
        [f("a", array(map_of(["null", "int"])))],
        ["~ a[]{}: int → null or int"],
    ),
    (
        [f("a", {**FIXED, "size": 4})],
        [f("a", {**FIXED, "size": 8})],
        ["~ a: fixed x.F (4 bytes) → fixed x.F (8 bytes)"],
    ),
    # enums
    (
        [f("a", {**ENUM, "symbols": ["A", "B"]})],
        [f("a", {**ENUM, "symbols": ["B", "C", "D"], "default": "B"})],
        ["+ a: symbols C, D", "- a: symbol A", '+ a: default symbol "B"'],
    ),
    (
        [f("a", {**ENUM, "symbols": ["A", "B"]})],
        [f("a", {**ENUM, "symbols": ["B", "A"]})],
        ["~ a: symbols in another order"],
    ),
    # defaults, docs and the rest
    ([A], [f("a", "int", default=0)], ["~ a: no default → default 0"]),
    ([f("a", "int", default=1)], [A], ["~ a: default 1 → no default"]),
    (
        [f("a", ["null", "int"])],
        [f("a", ["null", "int"], default=None)],
        ["~ a: no default → default null"],
    ),
    (
        [f("a", "string", default="x" * 80)],
        [f("a", "string", default="x" * 79 + "y")],
        ['~ a: default "' + "x" * 58 + '… → default "' + "x" * 58 + "…"],
    ),
    ([A], [f("a", "int", doc="d")], ['+ a: doc "d"']),
    ([f("a", "int", doc="d")], [f("a", "int", doc="é")], ['~ a: doc "d" → "é"']),
    ([f("a", "int", doc="d")], [A], ['- a: doc "d"']),
    ([A], [f("a", "int", order="ignore")], ['~ a: order "ascending" → "ignore"']),
    (
        [f("a", {"type": "string", "precision": 1})],
        [f("a", {"type": "string", "logicalType": "mine"})],
        ["~ a: string → string (mine)"],
    ),
    (
        [f("a", {"type": "string", "scale": 1})],
        [f("a", {"type": "string", "scale": 2})],
        ["~ a: type's property scale 1 → 2"],
    ),
    ([A], [f("a", {**FIXED, "size": 1})], ["~ a: int → fixed x.F (1 bytes)"]),
    (
        [f("a", {"type": "long", "logicalType": "timestamp-nanos"})],
        [f("a", {"type": "long", "logicalType": "local-timestamp-nanos"})],
        ["~ a: long (timestamp-nanos) → long (local-timestamp-nanos)"],
    ),
    (
        [f("a", {**FIXED, "size": 1, "doc": "d"})],
        [f("a", {**FIXED, "size": 1})],
        ['- a: type\'s doc "d"'],
    ),
    ([A], [f("a", "int", pii=None)], ["+ a: property pii null"]),
    (
        [f("a", {"type": "array", "items": "int", "x": 1})],
        [f("a", {"type": "array", "items": "int", "x": 2})],
        ["~ a: type's property x 1 → 2"],
    ),
    ([A], [f("a", "int", pii=False)], ["+ a: property pii false"]),
    ([f("a", "int", pii=1)], [f("a", "int", pii=True)], ["~ a: property pii 1 → true"]),
    (
        [f("a", {"type": "string", "avro.java.string": "String"})],
        [f("a", "string")],
        ['- a: type\'s property avro.java.string "String"'],
    ),
    # inside
    (
        [f("a", record(f("b", "int"), name="B"))],
        [f("a", record(f("b", "long"), name="B", doc="d"))],
        ['+ a: type\'s doc "d"', "~ a.b: int → long"],
    ),
    (
        [f("a", ["null", record(f("b", "int"), name="B")])],
        [f("a", ["null", record(f("b", "int"), f("c", "B"), name="B"), "string"])],
        ["~ a: null or record x.B → null or record x.B or string", "+ a.c: record x.B"],
    ),
    (
        [f("a", record(f("b", "int"), name="B")), f("c", "B")],
        [f("a", record(f("b", "long"), name="B")), f("c", "B")],
        ["~ a.b: int → long"],
    ),
    ([f("next", ["null", "Page"])], [f("next", ["null", "Page"]), A], ["+ a: int"]),
]


@pytest.mark.parametrize(("old", "new", "said"), CHANGES, ids=lambda value: str(value)[:40])
def test_a_change_is_told(old: list[Any], new: list[Any], said: list[str]) -> None:
    assert told(record(*old), record(*new)) == said
    assert told(record(*old), record(*old)) == []
    assert told(record(*new), record(*new)) == []


def test_a_type_may_change_its_name_and_all_else() -> None:
    assert told(record(A), record(f("a", "long"), name="y.Page")) == [
        "~ : record x.Page → record y.Page",
        "~ a: int → long",
    ]
    assert told(record(A), "string") == ["~ : record x.Page → string"]
    assert told(record(A), record(A, aliases=["x.Old"], doc="d", pii=[1])) == [
        "+ : type's property pii [1]",
        '+ : type\'s doc "d"',
        '+ : type\'s aliases ["x.Old"]',
    ]


def test_how_it_is_written_is_no_difference() -> None:
    inner = {"type": "record", "name": "B", "namespace": "x", "fields": [f("t", TIME)]}
    one = record(f("b", inner), f("c", {"type": "int"}), aliases=[])
    other = {
        "fields": [f("b", {**inner, "name": "x.B"}, order="ascending"), f("c", "int")],
        "namespace": "x",
        "name": "Page",
        "type": "record",
    }
    assert told(one, other) == []


def test_deep_types_are_told_in_few_words() -> None:
    deep: Any = "int"
    for _ in range(20):
        deep = array(deep)
    assert told(record(A), record(f("a", deep))) == [
        "~ a: int → array of array of array of array of array of …"
    ]


def test_as_deep_as_schemas_may_be() -> None:
    def nested(inner: str) -> Any:
        deep: Any = inner
        for _ in range(190):
            deep = array(deep)
        return deep

    assert told(nested("int"), nested("long")) == [f"~ {'[]' * 190}: int → long"]


def places(document: Any, *way: str | int) -> Iterator[tuple[str | int, ...]]:
    """The ways to all that stands in a JSON document."""
    if way:
        yield way
    if isinstance(document, dict):
        for key, value in document.items():
            yield from places(value, *way, key)
    elif isinstance(document, list):
        for index, value in enumerate(document):
            yield from places(value, *way, index)


@given(st.data())
def test_whatever_changes_is_told(data: st.DataObject) -> None:
    """One thing in a schema is replaced or removed; what a registry would keep shows whether it
    made a difference."""
    old = data.draw(schemas())
    before = parse(json.dumps(old), strict=False)
    assert differences(before, before) == []
    ways = list(places(old))
    if not ways:
        return
    new = copy.deepcopy(old)
    *way, last = data.draw(st.sampled_from(ways))
    inner = new
    for step in way:
        inner = inner[step]
    inner[last] = data.draw(st.sampled_from(["int", "long", None, 0, 1, True, "x", [], {}]))
    if data.draw(st.booleans()):
        del inner[last]
    try:
        after = parse(json.dumps(new), strict=False)
    except InvalidSchema:
        return
    assert (said_of(before, after) == []) == (before.text == after.text)
