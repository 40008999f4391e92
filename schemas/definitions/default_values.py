"""Converts defaults of a schema to values.

In the schema a default is JSON: bytes are a string, a float may be written as 1, and fields omitted
from a record have defaults of their own.
"""

from collections.abc import Sequence
from typing import Any, Final

from schemas.definitions.types import Array, Enum, Field, Fixed, Json, Map, Primitive, Record, Type
from schemas.errors import InvalidSchema

MOST_STEPS: Final = 100_000


def default_value(field: Field) -> Any:
    """Converts a default to a value. Raises `InvalidSchema` if the default does not match its type,
    as is possible in old schemas."""
    try:
        return _DefaultReader().of(field.type, field.default)
    except (_NoValue, RecursionError):
        raise InvalidSchema(f"the default of {field.name} cannot be used") from None


class _NoValue(Exception):
    """A default does not match the type. In a union, another branch may match."""


class _DefaultReader:
    def __init__(self) -> None:
        self._steps = 0

    def of(self, type_: Type, default: Json) -> Any:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise RecursionError
        match type_, default:
            case Primitive(), _:
                return _primitive(type_.kind, default)
            case Enum(), str() if default in type_.symbols:
                return default
            case Fixed(), str() if len(default) == type_.size:
                return _primitive("bytes", default)
            case Array(), list():
                return [self.of(type_.items, item) for item in default]
            case Map(), dict():
                return {key: self.of(type_.values, item) for key, item in default.items()}
            case Record(), dict():
                return {
                    field.name: self.of(field.type, default.get(field.name, field.default))
                    for field in type_.fields
                }
        return self._of_union(getattr(type_, "branches", ()), default)

    def _of_union(self, branches: Sequence[Type], default: Json) -> Any:
        for branch in branches:
            try:
                return self.of(branch, default)
            except _NoValue:
                continue
        raise _NoValue


def _primitive(kind: str, default: Json) -> Any:
    match kind, default:
        case ("null", None) | ("boolean", bool()) | ("string", str()):
            return default
        case (_, bool()):
            pass
        case ("int" | "long", int()):
            return default
        case ("float" | "double", int() | float()):
            return float(default)
        case "bytes", str():
            try:
                return default.encode("latin-1")
            except UnicodeEncodeError:
                raise _NoValue from None
    raise _NoValue
