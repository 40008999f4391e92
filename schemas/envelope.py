"""Messages in Confluent's wire format: byte 0, the schema id as four bytes big-endian, the body.

All events are written and read through this module. Writing is our own (bodies/writing.py); reading
is fastavro's, after validation (bodies/checking.py). Values are Avro's own, without logical types:
a time is a number of milliseconds, a decimal its bytes.

Invalid bytes and values raise `BadMessage`. Exceptions of the registry pass through, since an
unavailable schema says nothing about the message.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from io import BytesIO
from struct import Struct
from typing import Any, Final

import fastavro
import msgspec

from schemas.bodies.checking import MOST_BYTES, BodyCheck
from schemas.bodies.fastavro_schema import FIELD, REFUSALS, fastavro_schema
from schemas.bodies.refusals import Misfit, Undecided
from schemas.bodies.writing import BodyWriter
from schemas.definitions.types import Json
from schemas.errors import BadMessage, InvalidSchema
from schemas.evolution.unit_changes import unit_changes
from schemas.parsing import AvroSchema

__all__ = [
    "MOST_ID",
    "PREFIX_SIZE",
    "Decoder",
    "Encoder",
    "Message",
    "prefix",
    "schema_id_of",
    "split",
]

PREFIX_SIZE: Final = 5
MOST_ID: Final = 2**31 - 1
MOST_SCHEMAS: Final = 1_000

_PREFIX = Struct(">BI")
_GUID_MAGIC = 1

Message = bytes | bytearray | memoryview


def split(message: Message) -> tuple[int, memoryview]:
    """Splits a message into the schema id and the body."""
    return schema_id_of(message), memoryview(message)[PREFIX_SIZE:]


def prefix(schema_id: int) -> bytes:
    """Returns the bytes before the body."""
    if not 0 <= schema_id <= MOST_ID:
        raise ValueError(f"{schema_id} is not a schema id")
    return _PREFIX.pack(0, schema_id)


def schema_id_of(message: Message) -> int:
    """Returns the schema id of a message. Raises BadMessage if the message is not in this
    format."""
    if len(message) < PREFIX_SIZE:
        raise BadMessage(
            f"the message has {len(message)} bytes, at least {PREFIX_SIZE} are required"
        )
    magic, schema_id = _PREFIX.unpack_from(message)
    if magic == _GUID_MAGIC:
        raise BadMessage(
            "the message begins with byte 1: it names its schema by a GUID, not by an id"
        )
    if magic:
        raise BadMessage(f"the message begins with byte {magic}, not with 0: it names no schema")
    return int(schema_id)


class Encoder:
    """Encodes events of one schema as messages. Must not be used by two threads at once."""

    def __init__(self, schema: AvroSchema, schema_id: int) -> None:
        self._buffer = bytearray(prefix(schema_id))
        self._write = BodyWriter(schema.type).write

    def encode(self, event: Any) -> bytes:
        buffer = self._buffer
        del buffer[PREFIX_SIZE:]
        try:
            self._write(buffer, event)
        except (Undecided, RecursionError):
            reason = "the event is nested too deeply, or nearly matches too many union branches"
            raise BadMessage(reason) from None
        except Misfit as misfit:
            raise BadMessage(misfit.in_full()) from None
        return bytes(buffer)

    def encode_many(self, events: Iterable[Any]) -> list[bytes]:
        """Encodes all events, or none."""
        return list(map(self.encode, events))


class _Writer(msgspec.Struct, frozen=True):
    """One writer's schema, with the state for reading its messages."""

    schema: AvroSchema
    body: BodyCheck
    parsed: Json
    reader: Json | None


class Decoder:
    """Decodes messages of any schema to events.

    `lookup` returns the schema of an id, or None. With a `reader`, events have its fields; missing
    ones get its defaults, which all events share and which must not be modified. Must not be used
    by two threads at once.
    """

    def __init__(
        self, lookup: Callable[[int], AvroSchema | None], reader: AvroSchema | None = None
    ) -> None:
        self._lookup = lookup
        self._reader = reader
        self._parsed_reader = fastavro_schema(reader, for_reading=True) if reader else None
        self._writers: OrderedDict[int, _Writer] = OrderedDict()

    def decode(self, message: Message) -> Any:
        schema_id = schema_id_of(message)
        writer = self._writers.get(schema_id) or self._new_writer(schema_id)
        if len(message) > MOST_BYTES:
            raise BadMessage(
                f"the message has {len(message):,} bytes, at most {MOST_BYTES:,} are allowed"
            )
        message_bytes = bytes(message)
        body = BytesIO(message_bytes)
        body.seek(PREFIX_SIZE)
        try:
            writer.body.check(message_bytes, PREFIX_SIZE)
            record: Any = fastavro.schemaless_reader(body, writer.parsed, writer.reader)
            return record[FIELD]
        except BadMessage as error:
            raise BadMessage(f"with schema {schema_id}: {error}") from None
        except UnicodeDecodeError as error:
            raise BadMessage(f"with schema {schema_id}: a string is not UTF-8: {error}") from None
        except REFUSALS as error:
            reason = " ".join(str(error).split())[:200]
            raise BadMessage(f"the data does not match schema {schema_id}: {reason}") from None

    def _new_writer(self, schema_id: int) -> _Writer:
        schema = self._lookup(schema_id)
        if schema is None:
            raise BadMessage(f"there is no schema {schema_id}")
        reader = None if schema == self._reader else self._parsed_reader
        try:
            units = self._reader is not None and bool(unit_changes(schema, self._reader))
            if units and self._reader is not None:
                reader = fastavro_schema(self._reader, for_reading=True, with_units=True)
            parsed_schema = fastavro_schema(schema, with_units=units)
            writer = _Writer(schema, BodyCheck(schema.type), parsed_schema, reader)
        except InvalidSchema as error:
            raise BadMessage(f"schema {schema_id}: {error}") from None
        self._writers[schema_id] = writer
        if len(self._writers) > MOST_SCHEMAS:
            self._writers.popitem(last=False)
        return writer
