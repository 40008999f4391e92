"""The keys of a program's configuration, as values: read from its struct, and from the source.

A key's name is what `--set` takes: `batches.bytes`. In a list of mappings it is `inputs[].topic`,
and where names are the user's, `clusters.NAME.brokers`. Sections are the structs, in their order.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import msgspec
from msgspec import inspect

from penstock.allowed_values import list_in, mapping_in, struct_in
from penstock.reference.meanings import about, meanings
from penstock.reference.type_words import allowed_texts, type_word

_LINK: Final = re.compile(r"\[([^]]+)\]\([^)]+\)")


class Unexplained(Exception):
    """A key of which nobody has said what it means."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key. `meaning` is Markdown, with links as they hold in docs/."""

    name: str
    type: str
    allowed: tuple[str, ...]  # of a key with a handful of values
    required: bool
    default: Any  # None too where it is required
    meaning: str

    @property
    def plain_meaning(self) -> str:
        """Without links."""
        return _LINK.sub(r"\1", self.meaning)


@dataclass(frozen=True, slots=True)
class Section:
    """The keys of one struct. The program's own has no name."""

    name: str
    about: str
    keys: tuple[Key, ...]


def sections(program: type[msgspec.Struct]) -> tuple[Section, ...]:
    """Raises `Unexplained`."""
    return tuple(_sections(_described(program), "", ""))


def found(among: Sequence[Section], words: Sequence[str]) -> list[Key]:
    """The keys that have all of these words somewhere, in any case; those so called first."""
    keys = [key for section in among for key in section.keys]
    speaking = [
        key for key in keys if _has(" ".join([key.name, *key.allowed, key.plain_meaning]), words)
    ]
    return sorted(speaking, key=lambda key: not _has(key.name, words))


def _has(text: str, words: Sequence[str]) -> bool:
    return all(word.lower() in text.lower() for word in words)


def _described(struct: type[msgspec.Struct]) -> inspect.StructType:
    described = inspect.type_info(struct)
    if not isinstance(described, inspect.StructType):
        raise TypeError(f"{struct} is not a msgspec.Struct")
    return described


def _sections(struct: inspect.StructType, name: str, said: str) -> Iterator[Section]:
    texts = meanings(struct.cls)
    prefix = f"{name}." if name else ""
    keys = []
    below: list[Section] = []
    for field in struct.fields:
        full = prefix + field.encode_name
        inner, place = _inner(field.type, full)
        meaning = texts.get(field.name, "")
        if inner is not None:
            below += _sections(inner, place, about(inner.cls))
            meaning = meaning or about(inner.cls)
        if not meaning:
            raise Unexplained(f"{struct.cls.__module__}: {struct.cls.__name__}.{field.name}")
        keys.append(_key(full, field, meaning))
    yield Section(name, said, tuple(keys))
    yield from below


def _inner(kind: inspect.Type, name: str) -> tuple[inspect.StructType | None, str]:
    """The struct that the key's value is made of, if it is, and how its keys are written."""
    if struct := struct_in(kind):
        return struct, name
    if (item := list_in(kind)) and (struct := struct_in(item.item_type)):
        return struct, f"{name}[]"
    if (mapping := mapping_in(kind)) and (struct := struct_in(mapping.value_type)):
        return struct, f"{name}.NAME"
    return None, name


def _key(name: str, field: inspect.Field, meaning: str) -> Key:
    allowed = allowed_texts(field.type)
    return Key(
        name=name,
        type="one of" if allowed else type_word(field.type),
        allowed=allowed,
        required=field.required,
        default=_default(field),
        meaning=meaning,
    )


def _default(field: inspect.Field) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    if field.default is msgspec.NODEFAULT:
        return None
    if isinstance(field.default, msgspec.Struct):
        return {}  # what it comes to, its own keys say
    return field.default.value if isinstance(field.default, Enum) else field.default
