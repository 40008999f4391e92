"""Where Java's checker is wrong, or strict: what we answer, and what happens when data is read.

We answer what Confluent's registry answers, because what may be registered there must be taken
here; but for the last test. Data that shows the difference is written and read with fastavro.
"""

from typing import Any

import pytest
from fastavro.read import SchemaResolutionError

from tests.schemas.test_compatibility_reading import accepted, read, write


def record(*fields: dict[str, Any], name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def logical(type_: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": type_, "logicalType": name, **more}


A, B = field("a", "int"), field("b", "string")

UNREADABLE: dict[str, tuple[Any, Any, Any, type[Exception]]] = {
    "bytes that are no text": ("string", "bytes", b"\xff", UnicodeDecodeError),
    "one field is written, two have its name": (
        record(field("x", "int", aliases=["a"]), A),
        record(A),
        {"a": 1},
        SchemaResolutionError,
    ),
    "one field is written, two have its name as alias": (
        record(field("x", "int", aliases=["a"]), field("y", "int", aliases=["a"])),
        record(A),
        {"a": 1},
        SchemaResolutionError,
    ),
    # Java's reader looks for the full name first, fastavro takes the first of the simple name.
    "two branches of one simple name, the second is meant": (
        [record(field("q", "int"), name="x.R"), record(B, name="y.R")],
        record(B, name="y.R"),
        {"b": ""},
        SchemaResolutionError,
    ),
}


@pytest.mark.parametrize(
    ("reader", "writer", "value", "error"), UNREADABLE.values(), ids=UNREADABLE.keys()
)
def test_accepted_and_unreadable(
    reader: Any, writer: Any, value: Any, error: type[Exception]
) -> None:
    assert accepted(reader, writer)
    with pytest.raises(error):
        read(reader, writer, write(writer, value))


def decimal(scale: int) -> dict[str, Any]:
    return logical("bytes", "decimal", precision=9, scale=scale)


# Logical types are not compared: fastavro goes by the writer's, Java by the reader's.
MEANS_SOMETHING_ELSE: dict[str, tuple[Any, Any]] = {
    "a decimal of another scale": (decimal(1), decimal(2)),
    "a decimal without its places": ("bytes", decimal(2)),
    "a decimal as text": ("string", decimal(2)),
    "microseconds": (logical("long", "timestamp-micros"), logical("long", "timestamp-millis")),
    "days as milliseconds": (logical("long", "timestamp-millis"), logical("int", "date")),
    "local time": (logical("long", "local-timestamp-millis"), logical("long", "timestamp-millis")),
}


@pytest.mark.parametrize(
    ("reader", "writer"), MEANS_SOMETHING_ELSE.values(), ids=MEANS_SOMETHING_ELSE.keys()
)
def test_accepted_and_read_as_something_else(reader: Any, writer: Any) -> None:
    assert accepted(reader, writer)


# Java's own reader does not find the branch of a union whose namespace has changed, and aliases of
# fields only in records whose full name is the same or an alias. fastavro reads all of these.
NAMESPACES: dict[str, tuple[Any, Any, Any]] = {
    "of a record": (record(A, name="x.R"), record(A, name="y.R"), {"a": 1}),
    "of a branch": (["null", record(A, name="x.R")], ["null", record(A, name="y.R")], {"a": 1}),
    "and a field's alias": (
        record(field("b", "int", aliases=["a"]), name="x.R"),
        record(A, name="y.R"),
        {"a": 1},
    ),
}


@pytest.mark.parametrize(("reader", "writer", "value"), NAMESPACES.values(), ids=NAMESPACES.keys())
def test_accepted_with_another_namespace(reader: Any, writer: Any, value: Any) -> None:
    assert accepted(reader, writer)
    assert 1 in read(reader, writer, write(writer, value)).values()


COLOURS = {"type": "enum", "name": "E", "symbols": ["RED", "BLUE"]}

READABLE: dict[str, tuple[Any, Any, Any]] = {
    "a field that is its own alias": (
        record(field("a", "int", aliases=["a"])),
        record(A),
        {"a": 1},
    ),
    "an alias without the namespace it needs": (
        record(A, name="y.S", aliases=["R"]),
        record(A, name="x.R"),
        {"a": 1},
    ),
    "a symbol that nobody has written": ({**COLOURS, "symbols": ["RED"]}, COLOURS, "RED"),
    "a branch that nobody has written": (["int"], ["int", "string"], 1),
}


@pytest.mark.parametrize(("reader", "writer", "value"), READABLE.values(), ids=READABLE.keys())
def test_refused_and_readable(reader: Any, writer: Any, value: Any) -> None:
    assert not accepted(reader, writer)
    assert read(reader, writer, write(writer, value)) is not None


def test_refused_where_java_goes_on_believing_what_it_has_disproved() -> None:
    """Java takes p.A for able to read p.B while it compares them, so C for able to read C.

    Then it finds that the names differ. The union has another branch that will do, but C is
    believed, and not compared again when the second field needs it.
    """
    inside = {"type": "record", "name": "p.C", "fields": [field("back", ["null", "p.A"])]}
    written = {"type": "record", "name": "p.C", "fields": [field("back", ["null", "p.B"])]}
    reader = record(
        field("first", [record(field("c", inside), name="p.A"), record(name="q.B")]),
        field("second", "p.C"),
    )
    writer = record(
        field("first", [record(field("c", written), name="p.B")]), field("second", "p.C")
    )
    assert not accepted(reader, writer)
    value = {"first": {"c": {"back": None}}, "second": {"back": {"c": {"back": None}}}}
    with pytest.raises(SchemaResolutionError):
        read(reader, writer, write(writer, value))
