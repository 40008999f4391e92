"""Converts schemas to a form for fastavro, without the parts that do not affect encoded bytes.

Logical types are omitted, so that values are Avro's own: a time is a number, a decimal its bytes.
Dates outside of Python's range need no special case, and nothing depends on the machine's time
zone.

fastavro parses a schema for every value unless it is a record, compares the reader's schema with
the writer's, takes defaults as the schema spells them, and resolves a name without namespace in the
enclosing namespace. So the schema becomes the only field of a record, the writer's and the reader's
record differ early, defaults are converted to values, and names without namespace get one.
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
from schemas.evolution.units import rescaling, unit_in_words, units_differ
from schemas.parsing import AvroSchema

FIELD: Final = "value"
REFUSALS: Final = (
    *(ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError),
    *(struct.error, SchemaResolutionError),
)
"""Exceptions of fastavro for bytes and values that do not match a schema."""

_UNIT: Final = "penstock-unit"  # a logical type of our own; its properties are the schema's
_WITH_UNITS: Final = ("int", "long", "float", "double", "bytes", "string")
_NOWHERE = "-"  # not a legal namespace in schemas


def fastavro_schema(
    schema: AvroSchema, *, for_reading: bool = False, with_units: bool = False
) -> Json:
    """Returns a record whose only field has the type `schema`. `for_reading`: the reader's schema
    for data of another schema; otherwise the writer's. `with_units`, in both of them: values of
    logical types are converted from the writer's unit to the reader's."""
    converter = _Converter(for_reading=for_reading, with_units=with_units)
    outer_record = {
        "type": "record",
        "name": f"{_NOWHERE}.Message",
        "doc": "reader" if for_reading else "writer",
        "fields": [{"name": FIELD, "type": converter.of(schema.type)}],
    }
    named_types: dict[str, Json] = {}
    try:
        parsed_schema = fastavro.parse_schema(outer_record, named_types)
    except fastavro.schema.SchemaParseException as error:
        raise InvalidSchema(f"fastavro cannot use the schema: {str(error)[:200]}") from error
    except RecursionError:
        raise InvalidSchema("it is nested too deeply") from None
    if for_reading:
        for record in converter.records:
            _set_defaults(record, named_types[written_name(record.name)]["fields"])
    return parsed_schema


def _set_defaults(record: Record, written: Sequence[Json]) -> None:
    for field, written_field in zip(record.fields, written, strict=True):
        if field.has_default:
            written_field["default"] = default_value(field)


def written_name(name: Name) -> str:
    """Returns the type's name in schemas for fastavro."""
    return f"{name.namespace or _NOWHERE}.{name.simple}"


def _in_readers_unit(value: Json, written: Json, wanted: Json = None) -> Json:
    """Called by fastavro for each value of a type with the logical type `_UNIT`."""
    if wanted is None or written is None:
        return value
    writer, reader = _leaf(written), _leaf(wanted)
    if units_differ(writer, reader):
        scale = rescaling(writer, reader)
        if scale is None:
            raise ValueError(f"{unit_in_words(writer)} is not {unit_in_words(reader)}")
        if isinstance(value, bytes):
            return scale.bytes(value, reader.size if isinstance(reader, Fixed) else None)
        return scale.number(value)
    match value:  # promotions, which fastavro leaves to this function
        case int() if reader.kind in {"float", "double"}:
            return float(value)
        case str() if reader.kind == "bytes":
            return value.encode()
        case bytes() if reader.kind == "string":
            return value.decode()
    return value


def _leaf(written: Json) -> Primitive | Fixed:
    if written["type"] == "fixed":
        return Fixed(Name(written["name"], None), None, (), written[_UNIT], written["size"])
    return Primitive(written["type"], written[_UNIT])


for _kind in (*_WITH_UNITS, "fixed"):
    fastavro.read.LOGICAL_READERS[f"{_kind}-{_UNIT}"] = _in_readers_unit


class _Converter:
    """Writes out each definition at its first use; `records` collects the records."""

    def __init__(self, *, for_reading: bool, with_units: bool) -> None:
        self._for_reading = for_reading
        self._with_units = with_units
        self._known: set[int] = set()
        self.records: list[Record] = []

    def of(self, type_: Type) -> Json:
        match type_:
            case Primitive():
                if self._with_units and type_.kind in _WITH_UNITS:
                    return {"type": type_.kind, "logicalType": _UNIT, _UNIT: type_.props}
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
        definition: Json = {"type": type_.kind, "name": written_name(type_.name)}
        if self._for_reading:
            definition["aliases"] = [written_name(alias) for alias in type_.aliases]
        match type_:
            case Enum():
                definition["symbols"] = list(type_.symbols)
                if self._for_reading and type_.default is not None:
                    definition["default"] = type_.default
            case Fixed():
                definition["size"] = type_.size
                if self._with_units:
                    definition |= {"logicalType": _UNIT, _UNIT: type_.props}
            case Record():
                self.records.append(type_)
                definition["fields"] = [
                    {"name": field.name, "type": self.of(field.type)}
                    | ({"aliases": list(field.aliases)} if self._for_reading else {})
                    for field in type_.fields
                ]
        return definition
