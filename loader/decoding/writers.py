"""What is needed to read what was written with one schema id, made when the id is first met."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from columns.conversion import Conversion
from columns.leaves import MALFORMED
from columns.native import MOST_BYTES, NativeReader, NotNative
from columns.resolution import resolve
from columns.row_reader import RowReader, size_in_columns
from loader.decoding.decoded import INVALID_SCHEMA, UNKNOWN_SCHEMA
from schemas.envelope import MOST_ID
from schemas.errors import BadMessage, InvalidSchema, RegistryRefused
from schemas.parsing import AvroSchema
from schemas.registry_client import SCHEMA_NOT_FOUND

MOST_WRITERS: Final = 10_000
_FEW: Final = 4  # so many bodies are not divided further


class SchemaSource(Protocol):
    """Raises `RegistryError`, or `InvalidSchema` for what is registered and is not Avro."""

    def schema(self, schema_id: int) -> AvroSchema: ...


@dataclass(frozen=True, slots=True)
class Unusable:
    """Nothing with this schema id can be read."""

    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Read:
    """Bodies in raw form, by where they stood in what was asked."""

    places: tuple[int, ...]
    bodies: pa.Array


class Writer:
    """One schema, and how it is read into a table's columns."""

    def __init__(self, schema: AvroSchema, reader: AvroSchema) -> None:
        self.conversion: Final[Conversion] = resolve(schema.type, reader.type)
        self._raw = self.conversion.raw
        self.native: Final = _native(schema, self._raw)
        self._rows = RowReader(schema)

    def read(self, messages: Sequence[bytes]) -> tuple[list[Read], dict[int, Unusable]]:
        """Messages of the envelope, in parts, and which of them could not be read."""
        reading = _Reading(messages, self._raw)
        waiting = [range(len(messages))]
        while waiting:
            places = waiting.pop()
            bodies = self.native and self.native.bodies(messages[places.start : places.stop])
            if bodies is not None:
                reading.add(places, bodies)
            elif self.native is None or len(places) <= _FEW:
                reading.singly(places, self._rows)
            else:
                # Where one is bad, the others are read natively all the same.
                middle = len(places) // 2
                waiting += (places[middle:], places[:middle])
        return reading.parts, reading.bad


class _Reading:
    """What has been read, and the memory that is left for more: a few bytes may claim to be a list
    of a million nulls, each of which takes as much room as a record with all its fields."""

    def __init__(self, messages: Sequence[bytes], raw: pa.DataType) -> None:
        self.parts: list[Read] = []
        self.bad: dict[int, Unusable] = {}
        self._messages = messages
        self._raw = raw
        self._left = MOST_BYTES

    def add(self, places: Sequence[int], bodies: pa.Array) -> None:
        self._left -= bodies.nbytes
        self.parts.append(Read(tuple(places), bodies))

    def singly(self, places: Sequence[int], rows: RowReader) -> None:
        values: dict[int, Any] = {}
        for place in places:
            try:
                value = rows.read(self._messages[place])
            except BadMessage as error:
                self.bad[place] = Unusable(MALFORMED, str(error))
                continue
            size = size_in_columns(value, self._raw)
            if size > self._left:
                self.bad[place] = Unusable(MALFORMED, f"its batch would take over {MOST_BYTES:,} B")
                continue
            self._left -= size
            values[place] = value
        if values:
            self.parts.append(Read(tuple(values), pa.array(list(values.values()), self._raw)))


def _native(schema: AvroSchema, raw: pa.DataType) -> NativeReader | None:
    try:
        return NativeReader(schema.type, raw)
    except NotNative:
        return None


class Writers:
    """All that were met. A schema that nobody knows is asked for once."""

    def __init__(self, schemas: SchemaSource, reader: AvroSchema) -> None:
        self._schemas = schemas
        self._reader = reader
        self._known: dict[int, Writer | Unusable] = {}

    def of(self, schema_id: int) -> Writer | Unusable:
        known = self._known.get(schema_id)
        if known is None:
            if len(self._known) >= MOST_WRITERS:
                self._known.pop(next(iter(self._known)))
            known = self._known[schema_id] = self._made(schema_id)
        return known

    def _made(self, schema_id: int) -> Writer | Unusable:
        if schema_id > MOST_ID:
            return Unusable(UNKNOWN_SCHEMA, f"{schema_id} is no id of a schema")
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
