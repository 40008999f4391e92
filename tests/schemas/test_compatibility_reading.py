"""What is accepted really can be read: written with one schema by fastavro, read with the other.

fastavro is the oracle because it follows the specification where Java's checker does: names of
types without their namespaces, aliases, defaults, promotions. Apache's `avro` reads neither aliases
nor changed namespaces nor an enum's default. What fastavro does wrong is listed here by name, and
tested, so that an entry goes when its bug goes.
"""

import copy
import json
from contextlib import nullcontext, suppress
from io import BytesIO
from random import Random
from typing import Any

import fastavro
import pytest
from fastavro.read import SchemaResolutionError
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.evolution.incompatibilities import incompatibilities
from schemas.parsing import parse
from tests.schemas.avro_texts import field, record
from tests.schemas.compatibility_tables import each_of, table
from tests.schemas.pair_data import Endless, datum
from tests.schemas.schema_pairs import Pair

RECORD = record(field("a", "string"))
HASH = {"type": "fixed", "name": "H", "size": 1}

# What it fails with, and the smallest reader, writer and datum that show it. All are accepted.
BUGS_OF_FASTAVRO: dict[tuple[type[Exception], str], tuple[Any, Any, Any]] = {
    # A union that names a type is given the name, not the type.
    (TypeError, "string indices must be integers"): (
        [{"type": "map", "values": RECORD}, "R"],
        RECORD,
        {"a": ""},
    ),
    # An array's items that are a name are compared with a type that is none.
    (TypeError, "unhashable type: 'dict'"): (
        record(field("b", [HASH, {"type": "array", "items": "H"}]), name="T"),
        record(field("a", HASH), field("b", "H"), name="T"),
        {"a": b"x", "b": b"y"},
    ),
    # An enum and a record of one name are taken for each other.
    (KeyError, "'fields'"): (
        [{"type": "enum", "name": "x.R", "symbols": ["S"]}, RECORD],
        RECORD,
        {"a": ""},
    ),
}


def accepted(reader: Any, writer: Any) -> bool:
    one, other = parse(json.dumps(reader)), parse(json.dumps(writer))
    return not incompatibilities(one.type, other.type)


def write(writer: Any, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(copy.deepcopy(writer)), value)
    return out.getvalue()


def read(reader: Any, writer: Any, written: bytes) -> Any:
    """All of it."""
    stream = BytesIO(written)
    one, other = (fastavro.parse_schema(copy.deepcopy(each)) for each in (writer, reader))
    made = fastavro.schemaless_reader(stream, one, other)
    assert stream.read() == b""
    return made


def is_known(error: Exception) -> bool:
    return any(
        isinstance(error, kind) and str(error).startswith(text) for kind, text in BUGS_OF_FASTAVRO
    )


@pytest.mark.parametrize(
    ("kind", "text", "reader", "writer", "value"),
    [(*bug, *example) for bug, example in BUGS_OF_FASTAVRO.items()],
)
def test_fastavros_bugs_are_still_there(
    kind: type[Exception], text: str, reader: Any, writer: Any, value: Any
) -> None:
    assert accepted(reader, writer)
    with pytest.raises(kind, match=text):
        read(reader, writer, write(writer, value))


def samples(writer: Any, random: Random) -> list[bytes]:
    named: dict[str, Any] = {}
    schema = fastavro.parse_schema(copy.deepcopy(writer), named)
    made = []
    for _ in range(3):
        # ValueError: in a union in an array in a union, fastavro finds no branch by its name.
        with suppress(Endless, ValueError):
            made.append(write(writer, datum(schema, named, random)))
    return made


ACCEPTED = [pair for pair in table("pairs") if not pair.get("incompatibilities", True)]


# Below are more of them, and why.
UNREADABLE_PAIRS = {
    "one alias in two fields",
    "union: records alike, of one simple name, read back",
    "union: the second of one simple name is meant, read back",
    "union in a field: records alike, of one simple name, read back",
    "union in a field: the second of one simple name is meant, read back",
}


@each_of(ACCEPTED)
def test_what_java_accepts_can_be_read(case: dict[str, Any]) -> None:
    with (
        pytest.raises(SchemaResolutionError) if case["name"] in UNREADABLE_PAIRS else nullcontext()
    ):
        check_reading(case["reader"], case["writer"], Random(0))


def check_reading(reader: Any, writer: Any, random: Random) -> None:
    for written in samples(writer, random):
        try:
            read(reader, writer, written)
        except Exception as error:
            if not is_known(error):
                raise


@given(seed=st.integers(0, 2**48))
@settings(max_examples=300)
def test_what_is_accepted_can_be_read(seed: int) -> None:
    random = Random(seed)
    pair = Pair(random, size=random.randint(1, 6))
    old = copy.deepcopy(pair.text())
    pair.grow(random.randint(1, 4))
    new = pair.text()
    for reader, writer in ((old, new), (new, old)):
        if accepted(reader, writer):
            check_reading(reader, writer, random)


def test_the_samples_are_worth_it() -> None:
    """Or else the test above shows nothing."""
    random, read_at_all = Random(1), 0
    for _ in range(100):
        pair = Pair(random, size=5)
        old = copy.deepcopy(pair.text())
        pair.grow(2)
        read_at_all += accepted(pair.text(), old) and any(samples(old, random))
    assert read_at_all > 20


# Where Java's checker is wrong, or strict: what we answer, and what happens when data is read. We
# answer what Confluent's registry answers, because what may be registered there must be taken here;
# but for the last test.


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
    ("reader", "writer", "value", "error"), UNREADABLE.values(), ids=UNREADABLE
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
    ("reader", "writer"), MEANS_SOMETHING_ELSE.values(), ids=MEANS_SOMETHING_ELSE
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


@pytest.mark.parametrize(("reader", "writer", "value"), NAMESPACES.values(), ids=NAMESPACES)
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


@pytest.mark.parametrize(("reader", "writer", "value"), READABLE.values(), ids=READABLE)
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
