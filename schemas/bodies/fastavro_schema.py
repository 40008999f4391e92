"""Schemas as fastavro is given them: what decides about bytes, and nothing else.

Logical types are left out, so that values are what Avro carries: a time is a number, a decimal its
bytes. Dates that Python has no date for need no special case, and nothing depends on the time zone
of a machine.

fastavro parses a schema again for every value unless it is a record, compares the reader's with the
writer's, takes defaults as they stand in the schema, and looks for a name without namespace in the
namespace around it. So a schema is the one field of a record here, writer's and reader's differ
early, defaults are values, and what has no namespace is put into one.
"""

import struct
from collections.abc import Sequence
from typing import Final

import fastavro
from fastavro.read import SchemaResolutionError

from schemas.definitions.default_values import default_value
from schemas.definitions.types import (
    Array,
    Definition,
    Enum,
    Fixed,
    Json,
    Map,
    Name,
    Primitive,
    Record,
    Type,
    Union,
)
from schemas.errors import InvalidSchema
from schemas.parsing import AvroSchema

FIELD: Final = "value"
REFUSALS: Final = (
    *(ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError),
    *(struct.error, SchemaResolutionError),
)
"""What fastavro raises for bytes and values that are not of a schema."""

_NOWHERE = "-"  # no namespace that a schema can name


def fastavro_schema(schema: AvroSchema, *, for_reading: bool = False) -> Json:
    """A record with `schema` as the type of its only field. `for_reading`: what was written with
    another one; otherwise what was written with this one."""
    parts = _Parts(for_reading=for_reading)
    whole = {
        "type": "record",
        "name": f"{_NOWHERE}.Message",
        "doc": "reader" if for_reading else "writer",
        "fields": [{"name": FIELD, "type": parts.of(schema.type)}],
    }
    named: dict[str, Json] = {}
    try:
        parsed = fastavro.parse_schema(whole, named)
    except fastavro.schema.SchemaParseException as error:
        raise InvalidSchema(f"fastavro cannot use it: {str(error)[:200]}") from error
    except RecursionError:
        raise InvalidSchema("it is nested too deeply") from None
    if for_reading:
        for record in parts.records:
            _set_defaults(record, named[written_name(record.name)]["fields"])
    return parsed


def _set_defaults(record: Record, written: Sequence[Json]) -> None:
    for field, each in zip(record.fields, written, strict=True):
        if field.has_default:
            each["default"] = default_value(field)


def written_name(name: Name) -> str:
    """What fastavro is told that a type is called."""
    return f"{name.namespace or _NOWHERE}.{name.simple}"


class _Parts:
    """Writes each definition once, where it is first met; `records` are those that were."""

    def __init__(self, *, for_reading: bool) -> None:
        self._for_reading = for_reading
        self._known: set[int] = set()
        self.records: list[Record] = []

    def of(self, type_: Type) -> Json:
        match type_:
            case Primitive():
                return type_.kind
            case Array():
                return {"type": "array", "items": self.of(type_.items)}
            case Map():
                return {"type": "map", "values": self.of(type_.values)}
            case Union():
                return [self.of(branch) for branch in type_.branches]
        if id(type_) in self._known:
            return written_name(type_.name)
        self._known.add(id(type_))
        return self._definition(type_)

    def _definition(self, type_: Definition) -> Json:
        made: Json = {"type": type_.kind, "name": written_name(type_.name)}
        if self._for_reading:
            made["aliases"] = [written_name(alias) for alias in type_.aliases]
        match type_:
            case Enum():
                made["symbols"] = list(type_.symbols)
                if self._for_reading and type_.default is not None:
                    made["default"] = type_.default
            case Fixed():
                made["size"] = type_.size
            case Record():
                self.records.append(type_)
                made["fields"] = [
                    {"name": field.name, "type": self.of(field.type)}
                    | ({"aliases": list(field.aliases)} if self._for_reading else {})
                    for field in type_.fields
                ]
        return made
