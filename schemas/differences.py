"""Describes the differences between two schemas.

Compares meaning rather than spelling, and not compatibility: see schemas/compatibility.py.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from schemas.definitions.same_definition import same_json
from schemas.definitions.type_descriptions import shown_value, type_in_words
from schemas.definitions.types import (
    ABSENT,
    Array,
    Definition,
    Enum,
    Field,
    Fixed,
    Json,
    Map,
    Name,
    Named,
    Primitive,
    Properties,
    Record,
    Type,
    Union,
)
from schemas.parsing import AvroSchema

__all__ = ["Difference", "DifferenceKind", "differences"]

_IN_WORDS: Final = ("logicalType", "precision", "scale")  # properties that `type_in_words` includes


class DifferenceKind(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class Difference(msgspec.Struct, frozen=True):
    """One difference. `path` is a field, `header.time` or `tags[].name`; empty for the schema as a
    whole."""

    kind: DifferenceKind
    path: str
    what: str


def differences(old: AvroSchema, new: AvroSchema) -> list[Difference]:
    """Returns the differences, in the order of the new schema's fields."""
    return list(_Comparison().run(_Pair(old.type, new.type, "")))


class _Pair(msgspec.Struct, frozen=True):
    """Two types in the same place. Yielded to `run` instead of compared recursively, since types
    may be nested deeply."""

    old: Type
    new: Type
    path: str


_Steps: TypeAlias = Iterator[Difference | _Pair]


class _Comparison(msgspec.Struct, frozen=True):
    """Compares two schemas; compares a type that is used in several places only at the first."""

    compared: set[tuple[str, str]] = set()

    def run(self, whole: _Pair) -> Iterator[Difference]:
        comparisons = [self.types(whole)]
        while comparisons:
            step = next(comparisons[-1], None)
            if step is None:
                comparisons.pop()
            elif isinstance(step, Difference):
                yield step
            else:
                comparisons.append(self.types(step))

    def types(self, pair: _Pair) -> _Steps:
        path = pair.path
        match pair.old, pair.new:
            case (Union(), _) | (_, Union()):
                yield from _unions(pair)
            case (old, new) if old.kind != new.kind:
                yield _other_type(pair)
            case (Array() as old, Array() as new):
                yield from _properties(path, "type's property", old.props, new.props)
                yield _Pair(old.items, new.items, f"{path}[]")
            case (Map() as old, Map() as new):
                yield from _properties(path, "type's property", old.props, new.props)
                yield _Pair(old.values, new.values, f"{path}{{}}")
            case (Enum() | Fixed() | Record() as old, Enum() | Fixed() | Record() as new):
                yield from self.definitions(old, new, path)
            case (Primitive() as old, Primitive() as new):
                yield from _simple_types(old, new, path)

    def definitions(self, old: Definition, new: Definition, path: str) -> _Steps:
        """Compares two definitions of the same kind."""
        key = (old.name.full, new.name.full)
        if key in self.compared:
            return
        self.compared.add(key)
        yield from _simple_types(old, new, path)
        yield from _attribute(path, "type's doc", _text(old.doc), _text(new.doc))
        yield from _attribute(path, "type's aliases", _names(old.aliases), _names(new.aliases))
        if isinstance(old, Enum) and isinstance(new, Enum):
            yield from _symbols(old, new, path)
        if isinstance(old, Record) and isinstance(new, Record):
            yield from _fields(old, new, path)


def _other_type(pair: _Pair) -> Difference:
    return _changed(pair.path, type_in_words(pair.old), type_in_words(pair.new))


def _simple_types(
    old: Primitive | Definition, new: Primitive | Definition, path: str
) -> Iterator[Difference]:
    """Two types of one kind, without their contents."""
    known_branches: tuple[str, ...] = ()
    if type_in_words(old) != type_in_words(new):
        yield _other_type(_Pair(old, new, path))
        known_branches = _IN_WORDS
    yield from _properties(path, "type's property", old.props, new.props, known_branches)


def _unions(pair: _Pair) -> _Steps:
    old_branches, new_branches = _branches(pair.old), _branches(pair.new)
    if list(old_branches) != list(new_branches) or isinstance(pair.old, Union) != isinstance(
        pair.new, Union
    ):
        yield _other_type(pair)
    for key, branch in new_branches.items():
        if key in old_branches:
            yield _Pair(old_branches[key], branch, pair.path)


def _branches(type_: Type) -> dict[str, Type]:
    """A union's branches by their distinguishing names; another type counts as a union of
    itself."""
    branches = type_.branches if isinstance(type_, Union) else (type_,)
    return {
        branch.name.full if isinstance(branch, Named) else branch.kind: branch
        for branch in branches
    }


def _symbols(old: Enum, new: Enum, path: str) -> Iterator[Difference]:
    for kind, symbols, other_symbols in (
        (DifferenceKind.ADDED, new.symbols, set(old.symbols)),
        (DifferenceKind.REMOVED, old.symbols, set(new.symbols)),
    ):
        if unique_symbols := [symbol for symbol in symbols if symbol not in other_symbols]:
            word = "symbol" if len(unique_symbols) == 1 else "symbols"
            yield Difference(kind, path, f"{word} {', '.join(unique_symbols)}")
    if _moved(list(old.symbols), list(new.symbols)):
        yield Difference(DifferenceKind.CHANGED, path, "symbols in another order")
    yield from _attribute(path, "default symbol", _text(old.default), _text(new.default))


def _fields(old: Record, new: Record, path: str) -> _Steps:
    old_fields = {field.name: field for field in old.fields}
    new_fields = {field.name: field for field in new.fields}
    renamed_fields = {
        field.name: alias
        for field in new.fields
        for alias in field.aliases
        if field.name not in old_fields and alias in old_fields and alias not in new_fields
    }
    for name, field in new_fields.items():
        field_path = f"{path}.{name}" if path else name
        old_field = old_fields.get(renamed_fields.get(name, name))
        if old_field is None:
            yield Difference(DifferenceKind.ADDED, field_path, _field_in_words(field))
            continue
        if old_field.name != name:
            yield Difference(DifferenceKind.CHANGED, field_path, f"renamed from {old_field.name}")
        yield from _field(old_field, field, field_path)
    for name in [
        name for name in old_fields if name not in {*new_fields, *renamed_fields.values()}
    ]:
        field_path = f"{path}.{name}" if path else name
        yield Difference(DifferenceKind.REMOVED, field_path, _field_in_words(old_fields[name]))
    if _moved(list(old_fields), [renamed_fields.get(name, name) for name in new_fields]):
        yield Difference(DifferenceKind.CHANGED, path, "fields in another order")


def _field(old: Field, new: Field, path: str) -> _Steps:
    yield _Pair(old.type, new.type, path)
    if _differ(old.default, new.default):
        yield _changed(path, _default(old), _default(new))
    yield from _attribute(path, "doc", _text(old.doc), _text(new.doc))
    yield from _attribute(path, "aliases", list(old.aliases) or ABSENT, list(new.aliases) or ABSENT)
    yield from _attribute(path, "order", old.order, new.order)
    yield from _properties(path, "property", old.props, new.props)


def _moved(before: list[str], after: list[str]) -> bool:
    """Whether the common names are in another order."""
    common_names = set(before) & set(after)
    return [name for name in before if name in common_names] != [
        new_name for new_name in after if new_name in common_names
    ]


def _properties(
    path: str, word: str, old: Properties, new: Properties, known: tuple[str, ...] = ()
) -> Iterator[Difference]:
    for name in dict.fromkeys([*new, *old]):
        if name not in known:
            old_value, new_value = old.get(name, ABSENT), new.get(name, ABSENT)
            yield from _attribute(path, f"{word} {name}", old_value, new_value)


def _attribute(path: str, word: str, old: Json, new: Json) -> Iterator[Difference]:
    if not _differ(old, new):
        return
    if old is ABSENT:
        yield Difference(DifferenceKind.ADDED, path, f"{word} {shown_value(new)}")
    elif new is ABSENT:
        yield Difference(DifferenceKind.REMOVED, path, f"{word} {shown_value(old)}")
    else:
        yield _changed(path, f"{word} {shown_value(old)}", shown_value(new))


def _differ(old: Json, new: Json) -> bool:
    if old is ABSENT or new is ABSENT:
        return old is not new
    return not same_json(old, new)


def _changed(path: str, old: str, new: str) -> Difference:
    return Difference(DifferenceKind.CHANGED, path, f"{old} → {new}")


def _text(text: str | None) -> Json:
    return ABSENT if text is None else text


def _names(names: tuple[Name, ...]) -> Json:
    return [name.full for name in names] or ABSENT


def _default(field: Field) -> str:
    return f"default {shown_value(field.default)}" if field.has_default else "no default"


def _field_in_words(field: Field) -> str:
    words = type_in_words(field.type)
    return f"{words}, {_default(field)}" if field.has_default else words
