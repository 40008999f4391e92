"""Any schema, any values: whole batches, record by record, and fastavro say the same."""

import itertools
import json
import math
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from columns.native import MOST_BYTES, NativeReader, NotNative
from columns.resolution import resolve
from columns.row_reader import RowReader
from loader.decoding.decoded import Decoded
from loader.errors import NoSchema
from schemas.definitions.types import Record
from schemas.envelope import Decoder, Encoder
from schemas.errors import BadMessage, InvalidSchema
from schemas.parsing import AvroSchema, parse
from tests.loader.decoding.decoding import (
    batch_of,
    columns_of,
    decoder,
    is_origin,
    records_of,
    rows_of,
)
from tests.loader.decoding.witness import Ambiguous, OutOfRange, as_column, in_column, is_doubtful
from tests.schemas.avro_data import Json
from tests.schemas.avro_strategies import schemas, values

pytestmark = pytest.mark.fuzz

ANOTHER: Final = b"\0\0\0\0\2"  # of a schema that nobody knows, so that no record is read whole


PROMOTED: Final = {
    "int": ["long", "float", "double"],
    "long": ["float", "double"],
    "float": ["double"],
    "string": ["bytes"],
    "bytes": ["string"],
}
NEW_FIELDS: Final[list[Json]] = [
    {"type": "long", "default": 7},
    {"type": ["null", "string"], "default": None},
    {"type": {"type": "array", "items": "double"}, "default": [1, 2.5]},
    {"type": {"type": "map", "values": ["int", "string"]}, "default": {"a": 1}},
    {"type": {"type": "bytes", "logicalType": "decimal", "precision": 4}, "default": "\xff"},
    {"type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 1},
    {"type": ["boolean", "null", "float"], "default": True},
    {"type": "int"},  # without default: old records cannot be read
]


@st.composite
def evolved(draw: st.DrawFn, schema: Json) -> Json:
    """A later version: some of what was written can be read with it. Not always legal: names may
    be gone, and a union may have a type twice."""
    numbers = itertools.count()

    def later(of: Json) -> Json:
        chance = draw(st.integers(0, 19))
        if isinstance(of, list):
            made = [later(branch) for branch in of]
            if chance == 0 and made:
                return draw(st.sampled_from(made))
            if chance < 3 and len(made) > 1:
                made.pop(draw(st.integers(0, len(made) - 1)))
            return list(draw(st.permutations(made))) if chance < 8 else made
        if chance == 0:
            others = draw(st.sampled_from([["null"], ["string"], ["long", "null"], ["double"]]))
            return draw(st.sampled_from([[of, *others], [*others, of]]))
        kind = of if isinstance(of, str) else of["type"]
        if kind in PROMOTED and chance <= 4:
            return draw(st.sampled_from(PROMOTED[kind]))
        if isinstance(of, str):
            return "string" if chance == 19 else of
        for inner in {"items", "values"} & of.keys():
            of = {**of, inner: later(of[inner])}
        if kind == "enum":
            symbols = of["symbols"][: -1 if chance < 8 and len(of["symbols"]) > 1 else None]
            of = {**of, "symbols": ["new_symbol", *symbols]}
            if chance % 2 or of.get("default") not in of["symbols"]:
                of.pop("default", None)
        if kind == "record":
            of = {**of, "fields": later_fields(of["fields"])}
        return of

    def later_fields(fields: list[Json]) -> list[Json]:
        found: list[Json] = []
        for field in fields:
            made = {name: each for name, each in field.items() if name != "aliases"}
            made["type"] = later(field["type"])
            if made["type"] != field["type"]:
                made.pop("default", None)
            fate = draw(st.integers(0, 9))
            if fate == 1:
                made |= {"name": f"renamed_{next(numbers)}", "aliases": [field["name"]]}
            if fate != 0:
                found.append(made)
        if draw(st.integers(0, 2)) == 0:
            found.append({"name": f"added_{next(numbers)}", **draw(st.sampled_from(NEW_FIELDS))})
        return list(draw(st.permutations(found)))

    return later(schema)


def same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, list | tuple):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(wanted, float) or isinstance(found, float):
        return math.isclose(found, wanted, rel_tol=1e-6, abs_tol=1e-38) or found == wanted
    return bool(found == wanted)


def value_of(reader: AvroSchema, columns: Any, row: dict[str, Any]) -> Any:
    """A row without what the loader adds, in the form of `expected`."""
    fields = [field for field in columns.arrow if not is_origin(field.name)]
    if not isinstance(reader.type, Record):
        return in_column(reader.type, fields[0].type, row["value"])
    if not fields:
        return True
    pairs = zip(reader.type.fields, fields, strict=True)
    return [in_column(own.type, field.type, row[field.name]) for own, field in pairs]


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(st.data())
def test_what_was_written_is_read(data: st.DataObject) -> None:
    json_schema = data.draw(schemas())
    written = data.draw(st.lists(values(json_schema), min_size=1, max_size=3))
    try:
        schema = parse(json.dumps(json_schema), strict=False)
        columns_of(schema)
    except (NoSchema, InvalidSchema):
        assume(False)
    check(schema, schema, written)


def check(writer: AvroSchema, reader: AvroSchema, written: list[Any]) -> None:
    try:
        messages = Encoder(writer, 1).encode_many(written)
    except BadMessage:
        assume(False)
    whole = wanted(writer, reader, messages, written)
    made = decoder(columns_of(reader), {1: writer})
    taken_apart = made.decode(batch_of(records_of([*messages, ANOTHER])))
    assert whole.dead == taken_apart.dead[:-1]
    assert taken_apart.dead[-1].value == ANOTHER
    assert (whole.rows is None) == (taken_apart.rows is None)
    if whole.rows is not None:
        whole.rows.validate(full=True)
        assert whole.rows.equals(taken_apart.rows)
    natively_is_row_by_row(writer, reader, messages)


def wanted(
    writer: AvroSchema, reader: AvroSchema, messages: list[bytes], written: list[Any]
) -> Decoded:
    """Holds rows against those of fastavro, with its own resolution."""
    columns = columns_of(reader)
    found = decoder(columns, {1: writer}).decode(batch_of(records_of(messages)))
    oracle = Decoder(lambda _: writer, None if reader is writer else reader)
    expected: dict[int, Any] = {}
    undecided: set[int] = set()
    for at, message in enumerate(messages):
        try:
            expected[at] = as_column(reader.type, oracle.decode(message))
        except (BadMessage, OutOfRange):
            # It refuses an array by the types of items alone, even if there is no item.
            if reader is not writer and has_nothing_inside(written[at]):
                undecided.add(at)
        except Ambiguous:
            assume(False)
    rows = [row for row in rows_of(found) if row["_offset"] not in undecided]
    assert [row["_offset"] for row in rows] == sorted(expected)
    for row in rows:
        assert same(value_of(reader, columns, row), expected[row["_offset"]])
    dead = set(range(len(messages))) - set(expected)
    assert {each.offset for each in found.dead} - undecided == dead - undecided
    return found


def has_nothing_inside(value: Any) -> bool:
    """Whether an array or a map in it, or it itself, is empty."""
    if isinstance(value, dict):
        return not value or any(map(has_nothing_inside, value.values()))
    if isinstance(value, list | tuple):
        return not value or any(map(has_nothing_inside, value))
    return False


def natively_is_row_by_row(writer: AvroSchema, reader: AvroSchema, messages: list[bytes]) -> None:
    raw = resolve(writer.type, reader.type).raw
    try:
        native = NativeReader(writer.type, raw).bodies(messages, 0, len(messages), MOST_BYTES)
    except NotNative:
        return
    assert not isinstance(native, int)
    native.validate(full=True)
    rows = RowReader(writer)
    assert native.equals(pa.array([rows.read(message) for message in messages], raw))


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(st.data())
def test_what_was_written_is_read_with_a_later_schema(data: st.DataObject) -> None:
    old = data.draw(schemas(records=True))
    written = data.draw(st.lists(values(old), min_size=1, max_size=3))
    new = data.draw(evolved(old))
    try:
        writer = parse(json.dumps(old), strict=False)
        reader = parse(json.dumps(new), strict=False)
        columns_of(reader)
        Decoder(lambda _: writer, reader)
    except (NoSchema, InvalidSchema):
        assume(False)
    assume(not is_doubtful(reader.type))
    check(writer, reader, written)
