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
from tests.schemas.pair_data import Endless, datum
from tests.schemas.schema_pairs import Pair
from tests.schemas.test_compatibility_pairs import PAIRS

RECORD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}
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
        {
            "type": "record",
            "name": "T",
            "fields": [
                {"name": "b", "type": [HASH, {"type": "array", "items": "H"}]},
            ],
        },
        {
            "type": "record",
            "name": "T",
            "fields": [
                {"name": "a", "type": HASH},
                {"name": "b", "type": "H"},
            ],
        },
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


ACCEPTED = [pair for pair in PAIRS if not pair.get("incompatibilities", True)]


# test_compatibility_doubtful.py has more of them, and why.
UNREADABLE = {
    "one alias in two fields",
    "union: records alike, of one simple name, read back",
    "union: the second of one simple name is meant, read back",
    "union in a field: records alike, of one simple name, read back",
    "union in a field: the second of one simple name is meant, read back",
}


@pytest.mark.parametrize("pair", ACCEPTED, ids=[pair["name"] for pair in ACCEPTED])
def test_what_java_accepts_can_be_read(pair: dict[str, Any]) -> None:
    with pytest.raises(SchemaResolutionError) if pair["name"] in UNREADABLE else nullcontext():
        check_reading(pair["reader"], pair["writer"], Random(0))


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
