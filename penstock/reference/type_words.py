"""Types, as people call them who write a configuration: seconds, a list of texts, one of three.

(What a wrong value is told is `penstock.allowed_values`'s business: there, bounds matter.)
"""

from msgspec import inspect

from penstock.allowed_values import alternatives, bare, list_in, mapping_in, struct_in
from serving.setting_types import WORD


def allowed_texts(kind: inspect.Type) -> tuple[str, ...]:
    """What an enumeration allows; nothing of all other types."""
    return tuple(
        str(member.value)
        for each in alternatives(kind)
        if isinstance(each, inspect.EnumType)
        for member in each.cls
    )


def type_word(kind: inspect.Type) -> str:
    """Of a type that is no enumeration in itself."""
    for each in _without_null(kind):
        if said := _said(each):
            return said
    if item := list_in(kind):
        return f"list of {_plural(type_word(item.item_type))}"
    if mapping := mapping_in(kind):
        return f"mapping of names to {_plural(type_word(mapping.value_type))}"
    if struct_in(kind):
        return "mapping"
    known = [_SCALARS.get(type(bare(each)), "value") for each in _without_null(kind)]
    return known[0] if len(known) == 1 else "value"


_SCALARS: dict[type[inspect.Type], str] = {
    inspect.BoolType: "true or false",
    inspect.IntType: "whole number",
    inspect.FloatType: "number",
    inspect.StrType: "text",
}


def _without_null(kind: inspect.Type) -> list[inspect.Type]:
    """The members of a union, with what is said about each."""
    members = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return [each for each in members if not isinstance(each, inspect.NoneType)]


def _said(kind: inspect.Type) -> str:
    if not isinstance(kind, inspect.Metadata):
        return ""
    return str((kind.extra or {}).get(WORD, "")) or _said(kind.type)


def _plural(word: str) -> str:
    return word if word == "host:port" else f"{word}s"
