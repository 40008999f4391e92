"""How schemas are spoken of: `null or string`, `array of long (timestamp-millis)`."""

import json
from typing import Final

from avro.schema import (
    ArraySchema,
    FixedSchema,
    MapSchema,
    NamedSchema,
    RecordSchema,
    Schema,
    UnionSchema,
)

__all__ = ["shown_value", "type_in_words"]

_DEEPEST: Final = 4  # nobody reads an array of maps of arrays of maps of …
_MOST_BRANCHES: Final = 20
_LONGEST: Final = 60


def type_in_words(schema: Schema, depth: int = 0) -> str:
    """One phrase. Named types are called by their full name."""
    if depth > _DEEPEST:
        return "…"
    if isinstance(schema, UnionSchema):
        branches = schema.schemas
        words = " or ".join(type_in_words(each, depth + 1) for each in branches[:_MOST_BRANCHES])
        if len(branches) > _MOST_BRANCHES:
            words += f" or {len(branches) - _MOST_BRANCHES} more"
        return f"({words})" if depth else words or "a union of nothing"
    if isinstance(schema, ArraySchema):
        return f"array of {type_in_words(schema.items, depth + 1)}"
    if isinstance(schema, MapSchema):
        return f"map of {type_in_words(schema.values, depth + 1)}"
    return f"{_name(schema)}{_details(schema)}"


def shown_value(value: object) -> str:
    """As JSON, shortened."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _name(schema: Schema) -> str:
    if isinstance(schema, RecordSchema):
        return f"record {schema.fullname}"
    if isinstance(schema, NamedSchema):
        return f"{schema.type} {schema.fullname}"
    return str(schema.type)


def _details(schema: Schema) -> str:
    """A logical type with its parameters, the size of a fixed type."""
    details = []
    if isinstance(schema, FixedSchema):
        details.append(f"{schema.size} bytes")
    logical = schema.get_prop("logicalType")
    if isinstance(logical, str):
        scale = schema.get_prop("scale") or 0
        precise = f" {schema.get_prop('precision')},{scale}" if logical == "decimal" else ""
        details.append(f"{logical}{precise}")
    return f" ({', '.join(details)})" if details else ""
