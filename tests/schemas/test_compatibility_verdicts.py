"""Schemas on which Java's checker is strict, or mistaken: our answer to each.

We answer as Confluent's registry does, because what may be registered there must be taken here,
even where the data is read as something else, or not at all; but for the last of these, which Java
accepts. That our verdicts are Java's in general is held by test_compatibility_pairs.
"""

import json
from typing import Any

import pytest

from schemas.evolution.incompatibilities import incompatibilities
from schemas.parsing import parse
from tests.schemas.avro_texts import field, record

A, B = field("a", "int"), field("b", "string")
COLOURS = {"type": "enum", "name": "E", "symbols": ["RED", "BLUE"]}


def logical(type_: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": type_, "logicalType": name, **more}


def decimal(scale: int) -> dict[str, Any]:
    return logical("bytes", "decimal", precision=9, scale=scale)


def named(name: str, back: str) -> dict[str, Any]:
    """A record `name` whose field is a p.C that leads back to the record `back`."""
    inside = {"type": "record", "name": "p.C", "fields": [field("back", ["null", back])]}
    return record(field("c", inside), name=name)


ACCEPTED: dict[str, tuple[Any, Any]] = {
    "bytes that are no text": ("string", "bytes"),
    "one field is written, two have its name": (
        record(field("x", "int", aliases=["a"]), A),
        record(A),
    ),
    "one field is written, two have its name as alias": (
        record(field("x", "int", aliases=["a"]), field("y", "int", aliases=["a"])),
        record(A),
    ),
    "two branches of one simple name, the second is meant": (
        [record(field("q", "int"), name="x.R"), record(B, name="y.R")],
        record(B, name="y.R"),
    ),
    # Logical types are not compared.
    "a decimal of another scale": (decimal(1), decimal(2)),
    "a decimal without its places": ("bytes", decimal(2)),
    "a decimal as text": ("string", decimal(2)),
    "microseconds": (logical("long", "timestamp-micros"), logical("long", "timestamp-millis")),
    "days as milliseconds": (logical("long", "timestamp-millis"), logical("int", "date")),
    "local time": (logical("long", "local-timestamp-millis"), logical("long", "timestamp-millis")),
    "another namespace of a record": (record(A, name="x.R"), record(A, name="y.R")),
    "another namespace of a branch": (
        ["null", record(A, name="x.R")],
        ["null", record(A, name="y.R")],
    ),
    "another namespace and a field's alias": (
        record(field("b", "int", aliases=["a"]), name="x.R"),
        record(A, name="y.R"),
    ),
}
REFUSED: dict[str, tuple[Any, Any]] = {
    "a field that is its own alias": (record(field("a", "int", aliases=["a"])), record(A)),
    "an alias without the namespace it needs": (
        record(A, name="y.S", aliases=["R"]),
        record(A, name="x.R"),
    ),
    "a symbol that nobody has written": ({**COLOURS, "symbols": ["RED"]}, COLOURS),
    "a branch that nobody has written": (["int"], ["int", "string"]),
    # Java takes p.A for able to read p.B while it compares them, so C for able to read C. Then it
    # finds that the names differ. The union has another branch that will do, but C is believed, and
    # not compared again when the second field needs it.
    "what Java goes on believing although it has disproved it": (
        record(field("first", [named("p.A", "p.A"), record(name="q.B")]), field("second", "p.C")),
        record(field("first", [named("p.B", "p.B")]), field("second", "p.C")),
    ),
}


@pytest.mark.parametrize(
    ("reader", "writer", "accepted"),
    [
        *(pytest.param(*pair, True, id=name) for name, pair in ACCEPTED.items()),
        *(pytest.param(*pair, False, id=name) for name, pair in REFUSED.items()),
    ],
)
def test_the_verdict(reader: Any, writer: Any, accepted: bool) -> None:
    one, other = parse(json.dumps(reader)), parse(json.dumps(writer))
    assert (not incompatibilities(one.type, other.type)) is accepted
