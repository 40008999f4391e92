"""Writes the text of a schema as Avro's Java implementation and Confluent's registry do.

Attributes are in Java's order: name, namespace if it changes, documentation, contents, then unknown
attributes. Each definition is written at its first use. Types that are known from elsewhere are
only named, but definitions within them are written out again: so does Java.
"""

from collections.abc import Iterable

from schemas.definitions.json_reading import MAX_DEPTH, TOO_DEEP
from schemas.definitions.json_writing import quoted, written
from schemas.definitions.logical_types import logical_type
from schemas.definitions.types import (
    Array,
    Definition,
    Enum,
    Field,
    Fixed,
    Json,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    Union,
)
from schemas.errors import InvalidSchema

__all__ = ["schema_text"]


def schema_text(type_: Type, known: Iterable[str] = ()) -> str:
    """Returns the text of a schema. `known`: full names of types that are not written out.

    Raises `InvalidSchema` if the text is nested too deeply, which is possible even if its source is
    not.
    """
    return _Writer(known).type(type_, None, 0)


class _Writer:
    """Writes parts of a schema as text; `depth` counts the enclosing lists and objects."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = set(known)

    def type(self, type_: Type, namespace: str | None, depth: int) -> str:
        if isinstance(type_, Primitive):
            name = f'"{type_.kind}"'
            return f'{{"type":{name}{_properties(type_.props)}}}' if type_.props else name
        if depth >= MAX_DEPTH:
            raise InvalidSchema(f"{TOO_DEEP} when every type is written where it is first named")
        match type_:
            case Union():
                branches = (self.type(branch, namespace, depth + 1) for branch in type_.branches)
                return f"[{','.join(branches)}]"
            case Array():
                inner_text = self.type(type_.items, namespace, depth + 1)
                return f'{{"type":"array","items":{inner_text}{_properties(_java_order(type_))}}}'
            case Map():
                inner_text = self.type(type_.values, namespace, depth + 1)
                return f'{{"type":"map","values":{inner_text}{_properties(type_.props)}}}'
            case _:
                return self._named(type_, namespace, depth)

    def _named(self, type_: Definition, namespace: str | None, depth: int) -> str:
        name = type_.name
        if name.full in self._known:
            return quoted(name.seen_from(namespace))
        self._known.add(name.full)
        parts = [f'"type":"{_kind(type_)}","name":{quoted(name.simple)}']
        if name.namespace != namespace:
            parts.append(f'"namespace":{quoted(name.namespace or "")}')
        if type_.doc is not None:
            parts.append(f'"doc":{quoted(type_.doc)}')
        match type_:
            case Record():
                fields = (self._field(field, name.namespace, depth + 2) for field in type_.fields)
                parts.append(f'"fields":[{",".join(fields)}]')
            case Enum():
                parts.append(f'"symbols":[{",".join(map(quoted, type_.symbols))}]')
                if type_.default is not None:
                    parts.append(f'"default":{quoted(type_.default)}')
            case Fixed():
                parts.append(f'"size":{type_.size}')
        aliases = [quoted(alias.seen_from(name.namespace)) for alias in type_.aliases]
        return f"{{{','.join(parts)}{_properties(_java_order(type_))}{_aliases(aliases)}}}"

    def _field(self, field: Field, namespace: str | None, depth: int) -> str:
        text = f'{{"name":{quoted(field.name)},"type":{self.type(field.type, namespace, depth + 1)}'
        if field.doc is not None:
            text += f',"doc":{quoted(field.doc)}'
        if field.has_default:
            text += f',"default":{written(field.default)}'
        if field.order != "ascending":
            text += f',"order":"{field.order}"'
        return f"{text}{_aliases(map(quoted, field.aliases))}{_properties(field.props)}}}"


def _kind(type_: Named) -> str:
    match type_:
        case Record():
            return "error" if type_.is_error else "record"
        case Enum():
            return "enum"
        case _:
            return "fixed"


def _aliases(quoted_names: Iterable[str]) -> str:
    names = ",".join(quoted_names)
    return f',"aliases":[{names}]' if names else ""


def _properties(props: dict[str, Json]) -> str:
    if not props:
        return ""
    return "".join(f",{quoted(key)}:{written(value)}" for key, value in props.items())


def _java_order(type_: Array | Definition) -> dict[str, Json]:
    """Java copies the properties of types that contain types, the logical type first."""
    if isinstance(type_, Array | Record) and logical_type(type_):
        return {"logicalType": type_.props["logicalType"]} | type_.props
    return type_.props
