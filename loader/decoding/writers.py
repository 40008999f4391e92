"""Readers for the schemas that records were written with, created when an id is first seen."""

from typing import Any, Final, Protocol

import msgspec
import pyarrow as pa

from columns.conversion import Conversion
from columns.native import MOST_BYTES, NativeReader, NotNative
from columns.resolution import resolve
from columns.row_reader import RowReader, size_in_columns
from loader.decoding.decoded import INVALID_SCHEMA, MALFORMED, UNKNOWN_SCHEMA
from schemas.envelope import MOST_ID
from schemas.errors import BadMessage, InvalidSchema, RegistryRefused
from schemas.parsing import AvroSchema
from schemas.registry_client import SCHEMA_NOT_FOUND

MOST_WRITERS: Final = 10_000


class SchemaSource(Protocol):
    """Looks up schemas. Raises `RegistryError`, or `InvalidSchema` if a registered schema is not
    Avro."""

    def schema(self, schema_id: int) -> AvroSchema: ...


class Unusable(msgspec.Struct, frozen=True):
    """The reason why the messages of a schema cannot be decoded."""

    reason: str
    detail: str


class Read(msgspec.Struct, frozen=True):
    """Bodies in raw form, with their positions among the messages."""

    places: tuple[int, ...]
    bodies: pa.Array


class Writer:
    """A writer's schema, and its conversion into a table's columns."""

    def __init__(self, schema: AvroSchema, reader: AvroSchema) -> None:
        self.conversion: Final[Conversion] = resolve(schema.type, reader.type)
        self._raw = self.conversion.raw
        self.native: Final = _native(schema, self._raw)
        self._rows = RowReader(schema)

    def read(self, messages: list[bytes]) -> tuple[Read, dict[int, Unusable]]:
        """Reads messages with their envelope. Returns the bodies, and the messages that cannot be
        read."""
        reading = _Reading(messages, self._raw)
        index = 0
        while index < len(messages):
            if self.native is not None:
                index = reading.natively(index, self.native)
            if index < len(messages):
                reading.singly(index, self._rows)
                index += 1
        return reading.all(), reading.bad


class _Reading:
    """The messages read so far, and the remaining memory: a few bytes may encode a list of a
    million nulls, each taking as much memory as a complete record."""

    def __init__(self, messages: list[bytes], raw: pa.DataType) -> None:
        self.bad: dict[int, Unusable] = {}
        self._messages = messages
        self._raw = raw
        self._remaining = MOST_BYTES
        self._places: list[int] = []
        self._parts: list[pa.Array] = []
        self._values: list[Any] = []  # not in a part yet

    def natively(self, first: int, native: NativeReader) -> int:
        """Reads messages until one is not supported, and returns its position."""
        end = len(self._messages)
        bodies = native.bodies(self._messages, first, end, self._remaining)
        if isinstance(bodies, int):
            end = bodies
            if end == first:
                return end
            bodies = native.bodies(self._messages, first, end, self._remaining)
            assert not isinstance(bodies, int)
        self._remaining -= bodies.nbytes
        self._end_part()
        self._parts.append(bodies)
        self._places += range(first, end)
        return end

    def singly(self, place: int, rows: RowReader) -> None:
        try:
            value = rows.read(self._messages[place])
        except BadMessage as error:
            self.bad[place] = Unusable(MALFORMED, str(error))
            return
        size = size_in_columns(value, self._raw)
        if size > self._remaining:
            self.bad[place] = Unusable(MALFORMED, f"its batch would take over {MOST_BYTES:,} bytes")
            return
        self._remaining -= size
        self._values.append(value)
        self._places.append(place)

    def all(self) -> Read:
        self._end_part()
        parts = self._parts or [pa.array([], self._raw)]
        return Read(tuple(self._places), parts[0] if len(parts) == 1 else pa.concat_arrays(parts))

    def _end_part(self) -> None:
        if self._values:
            self._parts.append(pa.array(self._values, self._raw))
            self._values = []


def _native(schema: AvroSchema, raw: pa.DataType) -> NativeReader | None:
    try:
        return NativeReader(schema.type, raw)
    except NotNative:
        return None


class Writers:
    """The writers seen so far. Each unknown schema is requested once."""

    def __init__(self, schemas: SchemaSource, reader: AvroSchema) -> None:
        self._schemas = schemas
        self._reader = reader
        self._known: dict[int, Writer | Unusable] = {}

    def of(self, schema_id: int) -> Writer | Unusable:
        writer = self._known.get(schema_id)
        if writer is None:
            if len(self._known) >= MOST_WRITERS:
                self._known.pop(next(iter(self._known)))
            writer = self._known[schema_id] = self._create(schema_id)
        return writer

    def _create(self, schema_id: int) -> Writer | Unusable:
        if schema_id > MOST_ID:
            return Unusable(UNKNOWN_SCHEMA, f"{schema_id} is not a valid schema id")
        try:
            return Writer(self._schemas.schema(schema_id), self._reader)
        except RegistryRefused as error:
            if error.code != SCHEMA_NOT_FOUND:
                raise
            return Unusable(UNKNOWN_SCHEMA, f"there is no schema {schema_id}")
        except InvalidSchema as error:
            return Unusable(INVALID_SCHEMA, f"schema {schema_id}: {error}")
        except RecursionError:
            return Unusable(INVALID_SCHEMA, f"schema {schema_id} is nested too deeply")
