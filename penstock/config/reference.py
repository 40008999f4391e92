"""The configuration reference: every key of every program, generated from the config structs.

What a key means stands once, at its field. The terminal (`penstock keys`) and the pages in docs/
(`make reference`) show the same. Python keeps the docstring of a class and forgets the text under a
field, so the source is read for it.

A key's name is what `--set` takes: `batches.bytes`. In a list of mappings it is `inputs[].topic`,
and where names are the user's, `clusters.NAME.brokers`. Sections are the structs, in their order.
Types and defaults are in the words of people who write a configuration. (What a wrong value is told
is the business of `allowed_values`: there, bounds matter.)
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from inspect import getsource
from itertools import pairwise
from typing import Any, Final

import msgspec
import yaml
from msgspec import inspect

from agent.configuration.config import AgentConfig
from audit.configuration.config import AuditConfig
from broker.configs.config import BrokerConfig
from cluster.zookeeper_server.config import ZooKeeperConfig
from ground.settings import WORD
from loader.config import LoaderConfig
from mirror.config import MirrorConfig
from penstock.config.allowed_values import alternatives, bare, list_in, mapping_in, struct_in
from penstock.config.client_profile import ClientProfile
from registry.config import RegistryConfig

_FLOW: Final = set(",[]{}")
_SIZES: Final = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_TIMES: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"))
_LINK: Final = re.compile(r"\[([^]]+)\]\([^)]+\)")
KINDS: Final[Mapping[str, type[msgspec.Struct]]] = {
    "agent": AgentConfig,
    "broker": BrokerConfig,
    "registry": RegistryConfig,
    "loader": LoaderConfig,
    "audit": AuditConfig,
    "mirror": MirrorConfig,
    "zookeeper": ZooKeeperConfig,
    "client": ClientProfile,
}


def meanings(struct: type[msgspec.Struct]) -> Mapping[str, str]:
    """Returns the explanation of each field that has one, by name, on one line."""
    tree = ast.parse(getsource(sys.modules[struct.__module__]))
    (body,) = (
        node.body
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == struct.__name__
    )
    texts = {}
    for field, text in pairwise(body):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(said))),
            ):
                texts[name] = " ".join(said.split())
    return texts


def about(struct: type[msgspec.Struct]) -> str:
    """The struct's docstring on one line."""
    return " ".join((struct.__doc__ or "").split())


def allowed_texts(kind: inspect.Type) -> tuple[str, ...]:
    """Returns the values of an enumeration; empty for other types."""
    return tuple(
        str(member.value)
        for alternative in alternatives(kind)
        if isinstance(alternative, inspect.EnumType)
        for member in alternative.cls
    )


def type_word(kind: inspect.Type) -> str:
    """Returns the word for a type other than an enumeration."""
    for member in _without_null(kind):
        if text := _said(member):
            return text
    if item := list_in(kind):
        return f"list of {_plural(type_word(item.item_type))}"
    if mapping := mapping_in(kind):
        return f"mapping of names to {_plural(type_word(mapping.value_type))}"
    if struct_in(kind):
        return "mapping"
    type_words = [_SCALARS.get(type(bare(member)), "value") for member in _without_null(kind)]
    return type_words[0] if len(type_words) == 1 else "value"


_SCALARS: dict[type[inspect.Type], str] = {
    inspect.BoolType: "true or false",
    inspect.IntType: "whole number",
    inspect.FloatType: "number",
    inspect.StrType: "text",
}


def _without_null(kind: inspect.Type) -> list[inspect.Type]:
    """The members of a union with their metadata, without null."""
    members = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return [member for member in members if not isinstance(member, inspect.NoneType)]


def _said(kind: inspect.Type) -> str:
    if not isinstance(kind, inspect.Metadata):
        return ""
    return str((kind.extra or {}).get(WORD, "")) or _said(kind.type)


def _plural(word: str) -> str:
    return word if word == "host:port" else f"{word}s"


def is_nothing(value: Any) -> bool:
    """Whether a default is empty: null, empty text or an empty list."""
    return value is None or (isinstance(value, str | tuple | list | dict) and not value)


def written(value: Any) -> str:
    """Formats a default as YAML."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_item, value))}]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return yaml.safe_dump(value, width=1_000).removesuffix("\n").removesuffix("\n...")


def _item(value: Any) -> str:
    """An item in a list's brackets; quoted if it contains brackets or commas."""
    if isinstance(value, str) and _FLOW & set(value):
        return yaml.safe_dump(value, width=1_000, default_style='"').removesuffix("\n")
    return written(value)


def spoken(value: Any, type_word: str) -> str:
    """Converts bytes or seconds to larger units; empty if the result is not shorter."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return ""
    if type_word == "bytes":
        return next(
            (f"{value // size} {name}" for size, name in _SIZES if _is_whole(value, size)), ""
        )
    if "seconds" in type_word and value > 120:
        time_unit = next((unit for unit in _TIMES if _is_whole(value, unit[0])), None)
        if time_unit is not None:
            count = int(value // time_unit[0])
            return f"{count} {time_unit[1]}{'s' if count > 1 else ''}"
    return ""


def _is_whole(value: float, of: int) -> bool:
    return value >= of and value % of == 0


class Unexplained(Exception):
    """A key has no explanation."""


class Key(msgspec.Struct, frozen=True):
    """A configuration key. `meaning` is Markdown, with links relative to docs/."""

    name: str
    type: str
    allowed: tuple[str, ...]  # of a key with a handful of values
    required: bool
    default: Any  # None too where it is required
    meaning: str

    @property
    def plain_meaning(self) -> str:
        """The meaning without links."""
        return _LINK.sub(r"\1", self.meaning)


class Section(msgspec.Struct, frozen=True):
    """The keys of one struct. The name is empty for the struct of the whole program."""

    name: str
    about: str
    keys: tuple[Key, ...]
    struct: type | None = None


def sections(program: type[msgspec.Struct]) -> tuple[Section, ...]:
    """Returns the sections of a program's reference. Raises `Unexplained`."""
    return tuple(_sections(_described(program), "", ""))


def found(among: Sequence[Section], words: Sequence[str]) -> list[Key]:
    """Returns the keys that contain all these words, ignoring case. Keys with the words in their
    name come first."""
    keys = [key for section in among for key in section.keys]
    matching_keys = [
        key for key in keys if _has(" ".join([key.name, *key.allowed, key.plain_meaning]), words)
    ]
    return sorted(matching_keys, key=lambda key: not _has(key.name, words))


def _has(text: str, words: Sequence[str]) -> bool:
    return all(word.lower() in text.lower() for word in words)


def _described(struct: type[msgspec.Struct]) -> inspect.StructType:
    type_info = inspect.type_info(struct)
    if not isinstance(type_info, inspect.StructType):
        raise TypeError(f"{struct} is not a msgspec.Struct")
    return type_info


def _sections(struct: inspect.StructType, name: str, text: str) -> Iterator[Section]:
    texts = meanings(struct.cls)
    prefix = f"{name}." if name else ""
    keys = []
    inner_sections: list[Section] = []
    for field in struct.fields:
        full_name = prefix + field.encode_name
        inner_struct, place = _inner(field.type, full_name)
        meaning = texts.get(field.name, "")
        if inner_struct is not None:
            inner_sections += _sections(inner_struct, place, about(inner_struct.cls))
            meaning = meaning or about(inner_struct.cls)
        if not meaning:
            raise Unexplained(
                f"{struct.cls.__module__}: `{struct.cls.__name__}.{field.name}` has no text below"
                " it: write what the key means"
            )
        keys.append(_key(full_name, field, meaning))
    yield Section(name, text, tuple(keys), struct.cls)
    yield from inner_sections


def _inner(kind: inspect.Type, name: str) -> tuple[inspect.StructType | None, str]:
    """The struct of the key's value, if any, and the prefix of its keys."""
    if struct := struct_in(kind):
        return struct, name
    if (item := list_in(kind)) and (struct := struct_in(item.item_type)):
        return struct, f"{name}[]"
    if (mapping := mapping_in(kind)) and (struct := struct_in(mapping.value_type)):
        return struct, f"{name}.NAME"
    return None, name


def _key(name: str, field: inspect.Field, meaning: str) -> Key:
    allowed_values = allowed_texts(field.type)
    return Key(
        name=name,
        type="one of" if allowed_values else type_word(field.type),
        allowed=allowed_values,
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
        return {}  # its own keys have defaults
    return field.default.value if isinstance(field.default, Enum) else field.default
