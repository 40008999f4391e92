"""The normal form of a schema, equal for schemas that differ only in spelling.

As Confluent's registry does with `normalize=true`: attributes unknown to the specification are
sorted, after the logical type; so are aliases and the keys of defaults; defaults are written in
their type's form (1 for a double is 1.0); empty documentation is omitted, and an error becomes a
record.

What Confluent's form loses is kept here: a default that fits another branch of a union than the
first, an integer of more than 64 bits, the empty namespace inside another one.
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
    """Returns the normal form of a schema. `known`: full names of types that the text only names;
    they stay names."""
    return _Normalizer(frozenset(known)).type(type_)


class _Normalizer:
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
        full_name = type_.name.full
        if full_name in self._known:
            return type_
        if full_name in self._done:
            return self._done[full_name]
        normal_form = replace(
            type_,
            doc=type_.doc or None,
            aliases=tuple(sorted(type_.aliases, key=lambda alias: _place(alias, type_.name))),
            props=_properties(type_),
        )
        self._done[full_name] = normal_form
        if isinstance(normal_form, Record):
            normal_form.is_error = False
            normal_form.fields = tuple(map(self._field, normal_form.fields))
        return normal_form

    def _field(self, field: Field) -> Field:
        return replace(
            field,
            type=self.type(field.type),
            default=_default(field.type, field.default) if field.has_default else field.default,
            aliases=tuple(sorted(field.aliases, key=_as_java)),
            props=_sorted(field.props),
        )


def _place(alias: Name, of: Name) -> bytes:
    """Sort key. An alias without namespace, of a type with one, is spelled with a leading dot."""
    return _as_java(f".{alias.simple}" if of.namespace and not alias.namespace else alias.full)


def _as_java(text: str) -> bytes:
    """Java compares strings by 16-bit units."""
    return text.encode("utf-16-be")


def _properties(type_: Primitive | Array | Map | Definition) -> dict[str, Json]:
    props = type_.props
    if len(props) < 2:
        return _sorted(props)
    first_attributes: dict[str, Json] = {}
    if (logical := logical_type(type_)) is not None:
        first_attributes["logicalType"] = logical
        if logical == "decimal":
            first_attributes["precision"] = props["precision"]
            if props.get("scale"):
                first_attributes["scale"] = props["scale"]
    return first_attributes | _sorted(props)


def _sorted(values: Mapping[str, Json]) -> dict[str, Json]:
    return {key: _plain(values[key]) for key in sorted(values, key=_as_java)}


def _plain(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _plain(value[key]) for key in sorted(value, key=_as_java)}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _default(type_: Type | None, value: Json) -> Json:
    """The default in the form of its type, or of a union's first branch; otherwise only sorted."""
    if isinstance(type_, Union) and type_.branches:
        type_ = type_.branches[0]
    match type_, value:
        case Array(), list():
            return [_default(type_.items, item) for item in value]
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
    stored_number = as_float(number) if kind == "float" else number
    return number if math.isinf(stored_number) else stored_number
