"""The logical types that Avro's Java implementation knows, and the types they require.

Any other logical type, or one that does not fit its type, is an attribute without meaning.
"""

import math

from schemas.definitions.types import Array, Fixed, Json, Primitive, Record, Type

__all__ = ["logical_type"]

_ON_PRIMITIVES = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "timestamp-nanos": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "local-timestamp-nanos": "long",
    "uuid": "string",
    "big-decimal": "bytes",
}


def logical_type(type_: Type) -> str | None:
    """Returns the name of the logical type, if it is known and matches the type."""
    props = getattr(type_, "props", None)
    name = props.get("logicalType") if props else None
    if not isinstance(name, str) or props is None:
        return None
    match type_:
        case Primitive():
            fits = _ON_PRIMITIVES.get(name) == type_.kind or (
                name == "decimal" and type_.kind == "bytes" and _decimal(props, 2**31 - 1)
            )
        case Fixed():
            fits = {"uuid": 16, "duration": 12}.get(name) == type_.size or (
                name == "decimal" and _decimal(props, _digits_in(type_.size))
            )
        case Array():  # defined by the registry's Java library, like the next
            fits = name == "map" and _field_names(type_.items) == ["key", "value"]
        case Record():
            fits = name == "variant" and _is_variant(type_)
        case _:
            fits = False
    return name if fits else None


def _decimal(props: dict[str, Json], most: int) -> bool:
    precision, scale = props.get("precision"), props.get("scale", 0)
    return (
        type(precision) is int
        and type(scale) is int
        and 0 < precision <= most
        and 0 <= scale <= precision
    )


def _digits_in(size: int) -> int:
    return math.floor(math.log10(2) * (8 * size - 1))


def _field_names(type_: Type) -> list[str]:
    return [field.name for field in type_.fields] if isinstance(type_, Record) else []


def _is_variant(record: Record) -> bool:
    return sorted(_field_names(record)) == ["metadata", "value"] and all(
        field.type.kind == "bytes" for field in record.fields
    )
