"""Schemas as large and as deep as anybody may send: never for long, never beyond the stack."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from schemas.definitions.json_reading import MAX_DEPTH, MAX_LENGTH
from schemas.errors import InvalidSchema
from schemas.parsing import AvroSchema, parse


def _record(name: str, *fields: Any, **more: Any) -> Any:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def _field(name: str, type_: Any, **more: Any) -> Any:
    return {"name": name, "type": type_, **more}


def _all_of(schema: AvroSchema) -> None:
    again = parse(schema.text, strict=False)
    assert again == schema
    assert schema.normalized().text
    assert schema.fingerprint


def _within(frames: int, call: Callable[[], object]) -> None:
    """As a server or a test runner calls: from far down the stack."""
    if frames:
        _within(frames - 1, call)
    else:
        call()


def _nested(levels: int, around: Callable[[Any, int], Any], inner: Any) -> Any:
    for level in range(levels):
        inner = around(inner, level)
    return inner


def _list_or(key: str) -> Callable[[Any, int], Any]:
    return lambda inner, level: [inner] if level % 2 else {key: inner}


DEEP = {
    "arrays": _nested(MAX_DEPTH, lambda inner, _: {"type": "array", "items": inner}, "int"),
    "unions": _nested(MAX_DEPTH // 2, lambda inner, _: [{"type": "map", "values": inner}], "int"),
    "records": _nested(
        MAX_DEPTH // 3, lambda inner, i: _record(f"R{i}", _field("x", inner)), "int"
    ),
    "an attribute": {"type": "int", "x": _nested(MAX_DEPTH - 1, _list_or("y"), 1)},
    "a default": _record(
        "R",
        _field(
            "next",
            [{"type": "array", "items": "R"}, "R", "null"],
            default=_nested(MAX_DEPTH - 3, _list_or("next"), None),
        ),
    ),
}


@pytest.mark.parametrize("deep", DEEP)
def test_what_is_as_deep_as_allowed_is_safe_wherever_it_is_called(deep: str) -> None:
    text = json.dumps(DEEP[deep])
    _within(250, lambda: _all_of(parse(text)))
    with pytest.raises(InvalidSchema, match="nested deeper than 200 levels"):
        parse(json.dumps({"type": "array", "items": [{"type": "array", "items": DEEP[deep]}]}))


MANY = 8_000
LARGE = {
    "fields": _record("A", *(_field(f"f{i}", "int", default=1) for i in range(MANY))),
    "branches": [_record(f"A{i}") for i in range(MANY)],
    "symbols": {"type": "enum", "name": "E", "symbols": [f"s{i}" for i in range(4 * MANY)]},
    "names in a long namespace": _record(
        "A",
        _field("b", _record("B")),
        *(_field(f"f{i}", "B") for i in range(MANY)),
        namespace="n" * 1_000,
    ),
    "one definition again and again": _record(
        "A",
        *(_field(f"f{i}", _record("B", *map(_field, "xyz", 3 * ["int"]))) for i in range(1_000)),
    ),
    "defaults with many fields left out": _record(
        "A",
        _field("r", _record("R", *(_field(f"f{i}", "int", default=1) for i in range(500)))),
        *(_field(f"d{i}", "R", default={}) for i in range(500)),
    ),
    "types that all know each other": [
        _record(f"A{i}", *(_field(f"f{j}", f"A{j}") for j in range(60))) for i in range(60)
    ],
}


@pytest.mark.not_quick("measures time")
@pytest.mark.parametrize("large", LARGE)
def test_what_is_large_takes_no_longer_than_it_is_large(large: str) -> None:
    began = time.process_time()
    _all_of(parse(json.dumps(LARGE[large])))
    assert time.process_time() - began < 15


HOSTILE = {
    "a default and a union that multiply": json.dumps(
        _record(
            "A",
            _field(
                "a",
                {"type": "array", "items": [*(_record(f"R{i}") for i in range(4_000)), "int"]},
                default=[1] * 4_000,
            ),
        )
    ),
    "unions in unions, wrong at the bottom": json.dumps(
        [
            _record("A", _field("x", ["A", "B", "null"]), _field("missing", "int")),
            _record("B", _field("x", ["A", "B", "null"]), _field("missing", "int")),
            _record(
                "C",
                _field(
                    "c",
                    ["A", "B", "null"],
                    default=_nested(150, lambda inner, _: {"x": inner}, None),
                ),
            ),
        ]
    ),
    "a chain of names": json.dumps(
        [_record(f"A{i}", _field("next", f"A{i + 1}")) for i in range(MANY)]
    ),
    "a name without end": json.dumps(_record("a." * 400_000 + "A")),
    "more aliases than names": json.dumps(
        _record("A", aliases=[f"b{i}" for i in range(80_000)], namespace="n" * 1_000)
    ),
    "a number without end": json.dumps(
        _record("A", _field("a", "double", default="1" * 900_000 + "x"))
    ),
    "half of each character": '{"type":"int","x":"' + "\\ud800" * 150_000 + '"}',
    "quotes and no end": '"\\"' * 300_000,
    "comments and no end": "/*" * 500_000,
    "a little too long": " " * (MAX_LENGTH - 4) + '"int"',
}


@pytest.mark.not_quick("reads the largest schemas there may be")
@pytest.mark.parametrize("hostile", HOSTILE)
def test_what_is_hostile_is_refused_soon(hostile: str) -> None:
    began = time.process_time()
    with pytest.raises(InvalidSchema) as refused:
        parse(HOSTILE[hostile])
    assert len(str(refused.value)) < 600
    assert time.process_time() - began < 15


def test_references_are_bounded_all_together() -> None:
    with pytest.raises(InvalidSchema, match="references have more than"):
        parse('"int"', ['"int"' + " " * (MAX_LENGTH - 5)] * 9)


def test_what_stands_in_a_registry_may_be_longer_than_what_is_new() -> None:
    text = json.dumps({"type": "int", "x": "x" * MAX_LENGTH})
    assert len(parse(text, strict=False).text) > MAX_LENGTH
    with pytest.raises(InvalidSchema, match="longer than"):
        parse(text)
