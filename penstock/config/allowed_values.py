"""The values that a configuration's type allows: checks whether a value is one of them, and
describes them.

Works on msgspec's description of a type. The words are for the one line that a wrong value gets:
"a whole number from 1 to 65535". A `msgspec.Meta(description=…)` on the type takes precedence.
"""

import re
from typing import Any

from msgspec import inspect

_LISTS = (
    inspect.ListType,
    inspect.SetType,
    inspect.FrozenSetType,
    inspect.VarTupleType,
    inspect.CollectionType,
)
ListType = (
    inspect.ListType
    | inspect.SetType
    | inspect.FrozenSetType
    | inspect.VarTupleType
    | inspect.CollectionType
)


def bare(kind: inspect.Type) -> inspect.Type:
    """Returns the type without its metadata."""
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    return kind


def alternatives(kind: inspect.Type) -> tuple[inspect.Type, ...]:
    """Returns the members of a union; for any other type, only that type."""
    kind = bare(kind)
    if isinstance(kind, inspect.UnionType):
        return tuple(alternative for member in kind.types for alternative in alternatives(member))
    return (kind,)


def struct_in(kind: inspect.Type) -> inspect.StructType | None:
    return next(
        (
            alternative
            for alternative in alternatives(kind)
            if isinstance(alternative, inspect.StructType)
        ),
        None,
    )


def mapping_in(kind: inspect.Type) -> inspect.DictType | None:
    return next(
        (
            alternative
            for alternative in alternatives(kind)
            if isinstance(alternative, inspect.DictType)
        ),
        None,
    )


def list_in(kind: inspect.Type) -> ListType | None:
    return next(
        (alternative for alternative in alternatives(kind) if isinstance(alternative, _LISTS)), None
    )


def allows_null(kind: inspect.Type) -> bool:
    return any(
        isinstance(alternative, inspect.NoneType | inspect.AnyType)
        for alternative in alternatives(kind)
    )


def is_text(kind: inspect.Type) -> bool:
    """Whether the type allows only text, so that an unquoted `1` or `true` is text."""
    scalars = [
        alternative
        for alternative in alternatives(kind)
        if not isinstance(alternative, inspect.NoneType)
    ]
    return bool(scalars) and all(_is_text(scalar) for scalar in scalars)


def _is_text(kind: inspect.Type) -> bool:
    match kind:
        case inspect.StrType() | inspect.CustomType():
            return True
        case inspect.LiteralType(values):
            return all(isinstance(value, str) for value in values)
        case inspect.EnumType(cls):
            return all(isinstance(member.value, str) for member in cls)
        case _:
            return False


def fits(value: str | int | float | bool, kind: inspect.Type) -> bool:
    """Whether the type allows the scalar."""
    return any(_fits(value, alternative) for alternative in alternatives(kind))


def _fits(value: str | int | float | bool, kind: inspect.Type) -> bool:
    match kind:
        case inspect.AnyType():
            return True
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.IntType():
            return type(value) is int and _in_bounds(value, kind)
        case inspect.FloatType():
            return type(value) in {int, float} and _in_bounds(float(value), kind)
        case inspect.StrType():
            return isinstance(value, str) and _text_fits(value, kind)
        case inspect.CustomType():
            return isinstance(value, str)
        case inspect.LiteralType(values):
            return any(type(value) is type(option) and value == option for option in values)
        case inspect.EnumType(cls):
            return any(value == member.value for member in cls)
        case _:
            return False


def _in_bounds(value: float, kind: inspect.IntType | inspect.FloatType) -> bool:
    return (
        (kind.ge is None or value >= kind.ge)
        and (kind.gt is None or value > kind.gt)
        and (kind.le is None or value <= kind.le)
        and (kind.lt is None or value < kind.lt)
        and (kind.multiple_of is None or value % kind.multiple_of == 0)
    )


def _text_fits(value: str, kind: inspect.StrType) -> bool:
    return (
        len(value) >= (kind.min_length or 0)
        and (kind.max_length is None or len(value) <= kind.max_length)
        and (kind.pattern is None or re.search(kind.pattern, value) is not None)
    )


def describe(kind: inspect.Type) -> str:
    """Describes the allowed values."""
    match kind:
        case inspect.Metadata(inner, extra_json_schema):
            description = (extra_json_schema or {}).get("description")
            return str(description) if description else describe(inner)
        case inspect.UnionType(types):
            members = [
                describe(member) for member in types if not isinstance(member, inspect.NoneType)
            ]
            return " or ".join(members)
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return "a whole number" + _bounds(kind)
        case inspect.FloatType():
            return "a number" + _bounds(kind)
        case inspect.StrType():
            return "text" + _length(kind)
        case inspect.LiteralType(values):
            return _one_of(values)
        case inspect.EnumType(cls):
            return _one_of([member.value for member in cls])
        case inspect.CustomType(cls):
            return f"a {cls.__name__.lower()}"
        case inspect.StructType() | inspect.DictType():
            return "a mapping"
        case inspect.NoneType():
            return "nothing"
        case _ if isinstance(kind, _LISTS):
            item = describe(kind.item_type)
            return "a list" if item == "a value" else f"a list, each {item}"
        case _:
            return "a value"


def _one_of(values: Any) -> str:
    words = [str(value) for value in values]
    return words[0] if len(words) == 1 else f"one of {', '.join(words)}"


def _bounds(kind: inspect.IntType | inspect.FloatType) -> str:
    minimum = kind.ge if kind.ge is not None else kind.gt
    maximum = kind.le if kind.le is not None else kind.lt
    minimum_word = "above" if kind.ge is None else "from"
    maximum_word = "below" if kind.le is None else "to"
    words = ""
    if minimum is not None and maximum is not None:
        words = f" {minimum_word} {minimum} {maximum_word} {maximum}"
    elif minimum is not None:
        words = f" {minimum_word} {minimum}" if kind.ge is None else f", {minimum} or more"
    elif maximum is not None:
        words = f" {maximum_word} {maximum}" if kind.le is None else f", {maximum} or less"
    if kind.multiple_of is not None:
        words += f", a multiple of {kind.multiple_of}"
    return words


def _length(kind: inspect.StrType) -> str:
    minimum, maximum = kind.min_length, kind.max_length
    words = ""
    if minimum and maximum is not None:
        words = f" of {minimum} to {maximum} characters"
    elif minimum:
        words = f" of at least {minimum} characters"
    elif maximum is not None:
        words = f" of at most {maximum} characters"
    return words if kind.pattern is None else f"{words} that matches {kind.pattern}"
