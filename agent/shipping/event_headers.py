"""The header of an event, read from its message. What follows it is not looked at."""

from io import BytesIO
from typing import Any, Final, NamedTuple

import fastavro

from schemas.bodies.fastavro_schema import FIELD, fastavro_schema
from schemas.envelope import PREFIX_SIZE
from schemas.event_schemas import HEADER, built_in

_SCHEMA: Final = fastavro_schema(built_in(HEADER))


class EventHeader(NamedTuple):
    time: int
    host: str
    app: str
    source: str
    seq: int
    position: int


def event_header(message: bytes) -> EventHeader:
    """Of a message that this agent made."""
    read: Any = fastavro.schemaless_reader(BytesIO(message[PREFIX_SIZE:]), _SCHEMA, None)
    return EventHeader(**read[FIELD])
