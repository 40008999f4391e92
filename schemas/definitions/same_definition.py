"""Checks whether two definitions of one name are equal, so that the second is harmless.

Documentation, aliases and an enum's default may differ, as in Avro's Java implementation. Inner
types are compared by name: each of their definitions has been compared with the first of its name.
"""

from schemas.definitions.types import (
    Array,
    Enum,
    Field,
    Fixed,
    Json,
    Map,
    Named,
    Primitive,
    Record,
    Union,
)

__all__ = ["same_definition", "same_json"]


def same_definition(first: Named, second: Named) -> bool:
    if first.__class__ is not second.__class__ or not same_json(first.props, second.props):
        return False
    match first, second:
        case Record(), Record():
            return len(first.fields) == len(second.fields) and all(
                map(_same_field, first.fields, second.fields)
            )
        case Enum(), Enum():
            return first.symbols == second.symbols
        case Fixed(), Fixed():
            return first.size == second.size
    return False


def _same_field(first: Field, second: Field) -> bool:
    return (
        first.name == second.name
        and first.order == second.order
        and first.has_default == second.has_default
        and (not first.has_default or same_json(first.default, second.default))
        and same_json(first.props, second.props)
        and _same_type(first.type, second.type)
    )


def _same_type(first: object, second: object) -> bool:
    match first, second:
        case Primitive(), Primitive():
            return first.kind == second.kind and same_json(first.props, second.props)
        case Array(), Array():
            return same_json(first.props, second.props) and _same_type(first.items, second.items)
        case Map(), Map():
            return same_json(first.props, second.props) and _same_type(first.values, second.values)
        case Union(), Union():
            return len(first.branches) == len(second.branches) and all(
                map(_same_type, first.branches, second.branches)
            )
    return _full_name(first) is not None and _full_name(first) == _full_name(second)


def _full_name(type_: object) -> str | None:
    """The full name of a definition, or of the placeholder for a later one."""
    if isinstance(type_, Named):
        return type_.name.full
    return getattr(type_, "full_name", None)


def same_json(first: Json, second: Json) -> bool:
    """Compares strictly, unlike ==, which treats 1, 1.0 and true as equal."""
    if first.__class__ is not second.__class__:
        return False
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(
            same_json(first[key], second[key]) for key in first
        )
    if isinstance(first, list):
        return len(first) == len(second) and all(map(same_json, first, second))
    if isinstance(first, float):
        return repr(first) == repr(second)
    return bool(first == second)
