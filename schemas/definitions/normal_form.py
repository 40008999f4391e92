"""The form that schemas share which say the same and are only written differently.

As Confluent's registry does with `normalize=true`: attributes that the specification does not know
are sorted, the logical type before them; so are aliases and the keys of defaults; defaults are
written as their types have them (1 for a double is 1.0); empty documentation is left out, and an
error is a record.

Where Confluent's loses something it is kept here: a default that fits another branch of a union
than the first, an integer of more than 64 bits, the empty namespace inside another one.
"""

import math
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from schemas.definitions.json_writing import as_float
from schemas.definitions.logical_types import logical_type
from schemas.definitions.types import (
    Array,
    Definition,
    Field,
    Fixed,
    Json,
    Map,
    Name,
    Primitive,
    Record,
    Type,
    Union,
)

__all__ = ["normalized"]


def normalized(type_: Type, known: Iterable[str] = ()) -> Type:
    """`known` are the full names of types that are only named in the text: they stay."""
    return _Normalizing(frozenset(known)).type(type_)


class _Normalizing:
    def __init__(self, known: frozenset[str]) -> None:
        self._known = known
        self._done: dict[str, Definition] = {}

    def type(self, type_: Type) -> Type:
        match type_:
            case Primitive():
                return Primitive(type_.kind, _properties(type_))
            case Union():
                return Union(tuple(map(self.type, type_.branches)))
            case Array():
                return Array(self.type(type_.items), _properties(type_))
            case Map():
                return Map(self.type(type_.values), _properties(type_))
            case _:
                return self._named(type_)

    def _named(self, type_: Definition) -> Type:
        full = type_.name.full
        if full in self._known:
            return type_
        if full in self._done:
            return self._done[full]
        made = replace(
            type_,
            doc=type_.doc or None,
            aliases=tuple(sorted(type_.aliases, key=lambda alias: _place(alias, type_.name))),
            props=_properties(type_),
        )
        self._done[full] = made
        if isinstance(made, Record):
            made.is_error = False
            made.fields = tuple(map(self._field, made.fields))
        return made

    def _field(self, field: Field) -> Field:
        return replace(
            field,
            type=self.type(field.type),
            default=_default(field.type, field.default) if field.has_default else field.default,
            aliases=tuple(sorted(field.aliases, key=_as_java)),
            props=_sorted(field.props),
        )


def _place(alias: Name, of: Name) -> bytes:
    """An alias without a namespace, of a type that has one, is spelled with a dot before it."""
    return _as_java(f".{alias.simple}" if of.namespace and not alias.namespace else alias.full)


def _as_java(text: str) -> bytes:
    """Java compares strings by their units of 16 bits."""
    return text.encode("utf-16-be")


def _properties(type_: Primitive | Array | Map | Definition) -> dict[str, Json]:
    props = type_.props
    if len(props) < 2:
        return _sorted(props)
    first: dict[str, Json] = {}
    if (logical := logical_type(type_)) is not None:
        first["logicalType"] = logical
        if logical == "decimal":
            first["precision"] = props["precision"]
            if props.get("scale"):
                first["scale"] = props["scale"]
    return first | _sorted(props)


def _sorted(values: Mapping[str, Json]) -> dict[str, Json]:
    return {key: _plain(values[key]) for key in sorted(values, key=_as_java)}


def _plain(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _plain(value[key]) for key in sorted(value, key=_as_java)}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _default(type_: Type | None, value: Json) -> Json:
    """As the type has it, or a union's first; what is no value of it is only sorted."""
    if isinstance(type_, Union) and type_.branches:
        type_ = type_.branches[0]
    match type_, value:
        case Array(), list():
            return [_default(type_.items, each) for each in value]
        case Map(), dict():
            return {key: _default(type_.values, value[key]) for key in sorted(value, key=_as_java)}
        case Record(), dict():
            types = {field.name: field.type for field in type_.fields if field.name in value}
            return {
                key: _default(types.get(key), value[key]) for key in sorted(value, key=_as_java)
            }
        case Fixed() | Primitive(kind="bytes"), str():
            return value.encode("latin-1", "replace").decode("latin-1")
        case Primitive(kind="float" | "double"), int() | float() if not isinstance(value, bool):
            return _number(type_.kind, value)
    return _plain(value)


def _number(kind: str, value: float) -> float:
    try:
        number = float(value)
    except OverflowError:
        return value
    kept = as_float(number) if kind == "float" else number
    return number if math.isinf(kept) else kept
