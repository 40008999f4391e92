"""Whether two definitions of one name say the same, so that the second does no harm.

Documentation, aliases and an enum's default may differ, as for Avro's Java implementation. Types
inside are compared by name: each of their definitions has been compared with the first of its name.
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


def same_definition(one: Named, other: Named) -> bool:
    if one.__class__ is not other.__class__ or not same_json(one.props, other.props):
        return False
    match one, other:
        case Record(), Record():
            return len(one.fields) == len(other.fields) and all(
                map(_same_field, one.fields, other.fields)
            )
        case Enum(), Enum():
            return one.symbols == other.symbols
        case Fixed(), Fixed():
            return one.size == other.size
    return False


def _same_field(one: Field, other: Field) -> bool:
    return (
        one.name == other.name
        and one.order == other.order
        and one.has_default == other.has_default
        and (not one.has_default or same_json(one.default, other.default))
        and same_json(one.props, other.props)
        and _same_type(one.type, other.type)
    )


def _same_type(one: object, other: object) -> bool:
    match one, other:
        case Primitive(), Primitive():
            return one.kind == other.kind and same_json(one.props, other.props)
        case Array(), Array():
            return same_json(one.props, other.props) and _same_type(one.items, other.items)
        case Map(), Map():
            return same_json(one.props, other.props) and _same_type(one.values, other.values)
        case Union(), Union():
            return len(one.branches) == len(other.branches) and all(
                map(_same_type, one.branches, other.branches)
            )
    return _full_name(one) is not None and _full_name(one) == _full_name(other)


def _full_name(type_: object) -> str | None:
    """Of a definition, or of what stands for one that is yet to come."""
    if isinstance(type_, Named):
        return type_.name.full
    return getattr(type_, "full_name", None)


def same_json(one: Json, other: Json) -> bool:
    """Unlike ==, which takes 1, 1.0 and true for the same."""
    if one.__class__ is not other.__class__:
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_json(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    if isinstance(one, float):
        return repr(one) == repr(other)
    return bool(one == other)
