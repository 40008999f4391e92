"""Schemas of events for tests, and the oracle of what stands behind a header."""

import json
from typing import Any

from hypothesis import strategies as st

from schemas.envelope import PREFIX_SIZE, Encoder
from schemas.event_schemas import HEADER, built_in
from schemas.parsing import AvroSchema, parse
from tests.schemas.avro_strategies import schemas
from tests.schemas.events import header

HEADER_FIELD: dict[str, Any] = {"name": "header", "type": json.loads(built_in(HEADER).text)}
HEADER_BODY = Encoder(built_in(HEADER), 1).encode(header())[PREFIX_SIZE:]


def event_schema(*fields: Any, name: str = "shop.Event") -> AvroSchema:
    """Of an event that has these fields, given as Avro's JSON."""
    return parse(json.dumps({"type": "record", "name": name, "fields": [HEADER_FIELD, *fields]}))


def of(**types: Any) -> AvroSchema:
    """Of an event that has fields of these types, all of them without default."""
    return event_schema(*({"name": name, "type": type_} for name, type_ in types.items()))


def encoded(schema: AvroSchema, value: dict[str, Any]) -> bytes:
    """What the writer of all other events makes of these fields."""
    message = Encoder(schema, 1).encode({"header": header(), **value})
    assert message[PREFIX_SIZE:].startswith(HEADER_BODY)
    return message[PREFIX_SIZE + len(HEADER_BODY) :]


@st.composite
def event_texts(draw: st.DrawFn) -> dict[str, Any]:
    """Any record's schema, made into an event's."""
    text: dict[str, Any] = draw(schemas(records=True))
    fields = [each for each in text["fields"] if each["name"] != "header"]
    return {**text, "fields": [HEADER_FIELD, *fields]}
