"""What is different between two schemas, in words.

The comparison is of what the schemas say, not of how they are written, and says nothing of whether
the one can read what the other wrote: that is schemas/compatibility.py's.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

from avro.schema import (
    ArraySchema,
    EnumSchema,
    Field,
    MapSchema,
    NamedSchema,
    RecordSchema,
    Schema,
    UnionSchema,
)

from schemas.parsing import AvroSchema
from schemas.schema_words import shown_value, type_in_words

__all__ = ["Difference", "Kind", "differences"]

# What is compared by itself, or says nothing that is not compared.
_NO_PROPERTIES: Final = {
    "aliases",
    "default",
    "doc",
    "fields",
    "items",
    "logicalType",
    "name",
    "namespace",
    "order",
    "precision",
    "scale",
    "size",
    "symbols",
    "type",
    "values",
}


class Kind(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Difference:
    """`path` leads to a field, `header.time` or `tags[].name`; it is empty for the whole."""

    kind: Kind
    path: str
    what: str


def differences(old: AvroSchema, new: AvroSchema) -> list[Difference]:
    """What became of the old schema, in the order of the new one's fields."""
    return list(_Comparison().run(_Pair(old.parsed, new.parsed, "")))


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two types that stand in the same place. Handed to `run`, as types may be nested deeply."""

    old: Schema
    new: Schema
    path: str


_Steps: TypeAlias = Iterator[Difference | _Pair]


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A type that is used in several places is compared at the first of them."""

    compared: set[tuple[str, str]] = field(default_factory=set)

    def run(self, whole: _Pair) -> Iterator[Difference]:
        waiting = [self.types(whole)]
        while waiting:
            step = next(waiting[-1], None)
            if step is None:
                waiting.pop()
            elif isinstance(step, Difference):
                yield step
            else:
                waiting.append(self.types(step))

    def types(self, pair: _Pair) -> _Steps:
        old, new, path = pair.old, pair.new, pair.path
        if isinstance(old, UnionSchema) or isinstance(new, UnionSchema):
            yield from self.unions(_branches(old), _branches(new), old, new, path)
        elif old.type != new.type:
            yield _changed(path, type_in_words(old), type_in_words(new))
        elif isinstance(old, ArraySchema) and isinstance(new, ArraySchema):
            yield _Pair(old.items, new.items, f"{path}[]")
        elif isinstance(old, MapSchema) and isinstance(new, MapSchema):
            yield _Pair(old.values, new.values, f"{path}{{}}")
        else:
            if type_in_words(old) != type_in_words(new):
                yield _changed(path, type_in_words(old), type_in_words(new))
            yield from self.inside(old, new, path)

    def unions(
        self,
        before: dict[str, Schema],
        after: dict[str, Schema],
        old: Schema,
        new: Schema,
        path: str,
    ) -> _Steps:
        if list(before) != list(after):
            yield _changed(path, type_in_words(old), type_in_words(new))
        for key, branch in after.items():
            if key in before:
                yield _Pair(before[key], branch, path)

    def inside(self, old: Schema, new: Schema, path: str) -> _Steps:
        """Two types of one kind, whose names and logical types have been compared."""
        if isinstance(old, NamedSchema) and isinstance(new, NamedSchema):
            key = (old.fullname, new.fullname)
            if key in self.compared:
                return
            self.compared.add(key)
            yield from _attribute(path, "type's aliases", _aliases(old), _aliases(new))
        yield from _attribute(path, "type's doc", old.get_prop("doc"), new.get_prop("doc"))
        if isinstance(old, EnumSchema) and isinstance(new, EnumSchema):
            yield from _symbols(old, new, path)
        yield from _properties(path, "type's property", old.props, new.props)
        if isinstance(old, RecordSchema) and isinstance(new, RecordSchema):
            yield from self.fields(old, new, path)

    def fields(self, old: RecordSchema, new: RecordSchema, path: str) -> _Steps:
        before = {each.name: each for each in old.fields}
        after = {each.name: each for each in new.fields}
        renamed = {
            each.name: alias
            for each in new.fields
            for alias in _aliases(each)
            if each.name not in before and alias in before and alias not in after
        }
        for name, each in after.items():
            at = f"{path}.{name}" if path else name
            was = before.get(renamed.get(name, name))
            if was is None:
                yield Difference(Kind.ADDED, at, _field_in_words(each))
                continue
            if was.name != name:
                yield Difference(Kind.CHANGED, at, f"renamed from {was.name}")
            yield from self.field(was, each, at)
        for name in [each for each in before if each not in {*after, *renamed.values()}]:
            at = f"{path}.{name}" if path else name
            yield Difference(Kind.REMOVED, at, _field_in_words(before[name]))
        kept = [renamed.get(name, name) for name in after]
        if [name for name in before if name in kept] != [name for name in kept if name in before]:
            yield Difference(Kind.CHANGED, path, "fields in another order")

    def field(self, old: Field, new: Field, path: str) -> _Steps:
        yield _Pair(old.type, new.type, path)
        if old.has_default != new.has_default or _differ(old.default, new.default):
            yield _changed(path, _default(old), _default(new))
        yield from _attribute(path, "doc", old.get_prop("doc"), new.get_prop("doc"))
        yield from _attribute(path, "aliases", _aliases(old), _aliases(new))
        order = (old.get_prop("order") or "ascending", new.get_prop("order") or "ascending")
        yield from _attribute(path, "order", *order)
        yield from _properties(path, "property", old.props, new.props)


def _branches(schema: Schema) -> dict[str, Schema]:
    """A union's branches by what tells them apart; any other type is as a union of itself."""
    branches = schema.schemas if isinstance(schema, UnionSchema) else [schema]
    return {
        each.fullname if isinstance(each, NamedSchema) else str(each.type): each
        for each in branches
    }


def _symbols(old: EnumSchema, new: EnumSchema, path: str) -> Iterator[Difference]:
    for kind, these, others in (
        (Kind.ADDED, new.symbols, old.symbols),
        (Kind.REMOVED, old.symbols, new.symbols),
    ):
        if only := [each for each in these if each not in others]:
            word = "symbol" if len(only) == 1 else "symbols"
            yield Difference(kind, path, f"{word} {', '.join(only)}")
    both = set(old.symbols) & set(new.symbols)
    if [each for each in old.symbols if each in both] != [
        each for each in new.symbols if each in both
    ]:
        yield Difference(Kind.CHANGED, path, "symbols in another order")
    yield from _attribute(path, "default symbol", old.get_prop("default"), new.get_prop("default"))


def _properties(path: str, word: str, old: Any, new: Any) -> Iterator[Difference]:
    for name in dict.fromkeys([*new, *old]):
        if name not in _NO_PROPERTIES:
            yield from _attribute(path, f"{word} {name}", old.get(name), new.get(name))


def _attribute(path: str, word: str, old: Any, new: Any) -> Iterator[Difference]:
    if not _differ(old, new):
        return
    if _is_nothing(old):
        yield Difference(Kind.ADDED, path, f"{word} {shown_value(new)}")
    elif _is_nothing(new):
        yield Difference(Kind.REMOVED, path, f"{word} {shown_value(old)}")
    else:
        yield _changed(path, f"{word} {shown_value(old)}", shown_value(new))


def _differ(old: Any, new: Any) -> bool:
    """As JSON: to Python, 1 and 1.0 and true are the same."""
    if _is_nothing(old) and _is_nothing(new):
        return False
    return json.dumps(old, sort_keys=True) != json.dumps(new, sort_keys=True)


def _is_nothing(value: Any) -> bool:
    return value is None or value in ("", [])


def _changed(path: str, old: str, new: str) -> Difference:
    return Difference(Kind.CHANGED, path, f"{old} → {new}")


def _aliases(named: Any) -> list[str]:
    found = named.get_prop("aliases")
    return found if isinstance(found, list) else []


def _default(of: Field) -> str:
    return f"default {shown_value(of.default)}" if of.has_default else "no default"


def _field_in_words(of: Field) -> str:
    words = type_in_words(of.type)
    return f"{words}, {_default(of)}" if of.has_default else words
