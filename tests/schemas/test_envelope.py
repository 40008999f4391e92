"""Messages in the wire format: held against Confluent's serializer and fastavro."""

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.envelope import MOST_ID, MOST_SCHEMAS, PREFIX_SIZE, Decoder, Encoder, split
from schemas.errors import BadMessage, RegistryNotReachable
from schemas.parsing import AvroSchema, parse
from tests.schemas import avro_texts
from tests.schemas.avro_strategies import schemas, values
from tests.schemas.avro_texts import avro, enum, field
from tests.schemas.events import EVENTS, SCHEMAS, Event, everything

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "envelope.json").read_text())
KINDS = sorted(EVENTS)

LINE = SCHEMAS["LogLine"]
EVENT = EVENTS["LogLine"]


def decoder(schema: AvroSchema, reader: AvroSchema | None = None) -> Decoder:
    return Decoder(lambda _: schema, reader)


def record(*fields: Any, **changed: Any) -> AvroSchema:
    return avro(avro_texts.record(*fields) | changed)


# What others write, and what they read.


@pytest.mark.parametrize("kind", KINDS)
def test_messages_are_those_of_confluents_serializer(kind: str) -> None:
    schema_id, message = GOLDEN["messages"][kind].values()
    assert Encoder(SCHEMAS[kind], schema_id).encode(EVENTS[kind]).hex() == message
    assert decoder(SCHEMAS[kind]).decode(bytes.fromhex(message)) == EVENTS[kind]
    assert split(bytes.fromhex(message))[0] == schema_id


@given(st.data())
def test_fastavro_reads_what_we_write_and_the_reverse(data: st.DataObject) -> None:
    """Where several branches of a union fit, it takes its own, and an int may become a float: what
    it wrote is held against what it reads of that."""
    text = data.draw(schemas(logical=False))
    schema, value = parse(json.dumps(text)), data.draw(values(text))
    message = Encoder(schema, 1).encode(value)
    fastavros = fastavro.parse_schema(text)
    body = io.BytesIO(message[PREFIX_SIZE:])
    assert fastavro.schemaless_reader(body, fastavros, None) == value
    assert body.read() == b""

    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavros, value)
    ours = decoder(schema).decode(message[:PREFIX_SIZE] + written.getvalue())
    written.seek(0)
    assert ours == fastavro.schemaless_reader(written, fastavros, None)


@given(st.data())
def test_logical_types_are_the_numbers_and_bytes_below_them(data: st.DataObject) -> None:
    text = data.draw(schemas(logical=True))
    schema, value = parse(json.dumps(text)), data.draw(values(text))
    assert decoder(schema).decode(Encoder(schema, 1).encode(value)) == value


# The envelope.


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"", "the message has 0 bytes, at least 5"),
        (b"\0\0\0\1", "the message has 4 bytes, at least 5"),
        (b"\1" + bytes(16), "the message begins with byte 1: it names its schema by a GUID"),
        (b"{}   ", "the message begins with byte 123, not with 0: it names no schema"),
    ],
)
def test_what_is_no_envelope_is_refused(message: bytes, why: str) -> None:
    with pytest.raises(BadMessage, match=f"^{why}"):
        split(message)
    with pytest.raises(BadMessage, match=f"^{why}"):
        decoder(LINE).decode(message)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_message_may_be_any_bytes(kind: Any) -> None:
    message = Encoder(LINE, 258).encode(EVENT)
    schema_id, body = split(kind(message))
    assert (schema_id, bytes(body)) == (258, message[5:])
    assert message[:5] == b"\0\0\0\1\2"
    assert decoder(LINE).decode(kind(message)) == EVENT


@pytest.mark.parametrize("schema_id", [-1, MOST_ID + 1])
def test_ids_are_positive_numbers_of_java(schema_id: int) -> None:
    with pytest.raises(ValueError, match="is not a schema id"):
        Encoder(LINE, schema_id)


def test_an_encoder_can_be_used_again_after_it_refused() -> None:
    encoder = Encoder(LINE, 1)
    message = encoder.encode(EVENT)
    with pytest.raises(BadMessage, match=r"^message: it is missing$"):
        encoder.encode({"header": EVENT["header"], "path": "x" * 1_000})
    assert encoder.encode(EVENT) == message


def test_many_are_encoded_or_none() -> None:
    encoder = Encoder(LINE, 1)
    lines: list[Event] = [EVENT | {"message": str(number)} for number in range(100)]
    messages = encoder.encode_many(lines)
    read = decoder(LINE)
    assert [read.decode(message) for message in messages] == lines
    with pytest.raises(BadMessage, match=r"^message: 7 is not a string$"):
        encoder.encode_many([*lines, EVENT | {"message": 7}])
    assert encoder.encode_many(iter(())) == []


# Schemas by id.


def test_a_schema_is_asked_for_once() -> None:
    asked = []

    def lookup(schema_id: int) -> AvroSchema | None:
        asked.append(schema_id)
        return {1: LINE, 2: SCHEMAS["Everything"]}.get(schema_id)

    read = Decoder(lookup)
    line, other = Encoder(LINE, 1).encode(EVENT), Encoder(SCHEMAS["Everything"], 2)
    for _ in range(3):
        assert read.decode(line) == EVENT
        assert read.decode(other.encode(everything())) == everything()
    assert asked == [1, 2]
    with pytest.raises(BadMessage, match=r"^there is no schema 4294967295$"):
        read.decode(b"\0\xff\xff\xff\xff")


def test_the_registrys_failures_are_not_the_messages() -> None:
    """The message may be good: whoever reads must not drop it."""

    def lookup(_: int) -> AvroSchema:
        raise RegistryNotReachable("nobody answers")

    with pytest.raises(RegistryNotReachable):
        Decoder(lookup).decode(Encoder(LINE, 1).encode(EVENT))


def test_schemas_that_are_remembered_are_bounded() -> None:
    asked = []
    small = parse('"int"')

    def lookup(schema_id: int) -> AvroSchema:
        asked.append(schema_id)
        return small

    read = Decoder(lookup)
    for schema_id in range(MOST_SCHEMAS + 1):
        read.decode(Encoder(small, schema_id).encode(7))
    read.decode(Encoder(small, MOST_SCHEMAS).encode(7))
    assert len(asked) == MOST_SCHEMAS + 1
    read.decode(Encoder(small, 0).encode(7))
    assert len(asked) == MOST_SCHEMAS + 2


# With a reader's schema.

A = field("a", "int")
INNER = avro_texts.record(field("x", "float", default=1), A, name="Inner")


@pytest.mark.parametrize(
    ("writer", "reader", "read"),
    [
        pytest.param([A], [A, field("b", "long", default=5)], {"b": 5}, id="added"),
        pytest.param([A, field("b", "null")], [A], {}, id="removed"),
        pytest.param([A], [field("a", "double")], {"a": 7.0}, id="promoted"),
        pytest.param([A], [field("a", ["null", "long"])], {"a": 7}, id="nullable"),
        pytest.param(
            [A], [{"name": "z", "type": "int", "aliases": ["a"]}], {"z": 7, "a": ...}, id="renamed"
        ),
        pytest.param(
            [A],
            [A, field("b", "bytes", default="\u00ff\0")],
            {"b": b"\xff\0"},
            id="default of bytes",
        ),
        pytest.param(
            [A],
            [A, field("b", ["null", "string"], default=None)],
            {"b": None},
            id="default of a union",
        ),
        pytest.param(
            [A],
            [A, field("b", INNER, default={"a": 3})],
            {"b": {"x": 1.0, "a": 3}},
            id="default with defaults inside",
        ),
    ],
)
def test_events_of_other_versions_are_read(
    writer: list[Any], reader: list[Any], read: dict[str, Any]
) -> None:
    old, new = record(*writer), record(*reader)
    value = {"a": 7} | {field["name"]: None for field in writer[1:]}
    message = Encoder(old, 1).encode(value)
    expected = {key: each for key, each in ({"a": 7} | read).items() if each is not ...}
    got = decoder(old, new).decode(message)
    assert got == expected
    assert [type(each) for each in got.values()] == [type(expected[key]) for key in got]


def test_an_unknown_symbol_is_read_as_the_default() -> None:
    def tier(*symbols: str) -> AvroSchema:
        return avro(enum("Tier", *symbols, default=symbols[0]))

    newer = tier("unknown", "agent", "cloud")
    message = Encoder(newer, 1).encode("cloud")
    assert decoder(newer, tier("unknown", "agent")).decode(message) == "unknown"


def test_what_cannot_be_read_as_the_readers_says_so() -> None:
    message = Encoder(record(A), 1).encode({"a": 7})
    wrong = record(field("a", "string"))
    with pytest.raises(BadMessage, match=r"^the data does not match schema 1: [^\n]+$"):
        decoder(record(A), wrong).decode(message)


def test_names_without_namespace_are_found_from_within_one() -> None:
    """Java finds them, fastavro's own parser does not."""
    plain = {"name": "b", "type": {"type": "enum", "name": "E", "symbols": ["X", "Y"]}}
    named = field("e", "E")
    within = {"name": "c", "type": {"type": "record", "name": "n.C", "fields": [named]}}
    schema = record(plain, within)
    value = {"b": "X", "c": {"e": "Y"}}
    message = Encoder(schema, 1).encode(value)
    assert decoder(schema).decode(message) == value
    newer = record(plain, within, field("d", "int", default=1))
    assert decoder(schema, newer).decode(message) == value | {"d": 1}


def test_a_name_in_an_unfinished_record_means_the_type_without_namespace() -> None:
    """As in Java, though the record itself has the same name in its namespace."""
    inner = {"type": "record", "name": "R", "namespace": "", "fields": [A]}
    schema = avro(avro_texts.record(field("r", inner), field("s", "R"), name="n.R"))
    value = {"r": {"a": 1}, "s": {"a": 2}}
    assert decoder(schema).decode(Encoder(schema, 1).encode(value)) == value
