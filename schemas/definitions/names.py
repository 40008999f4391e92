"""Rules for names, and their resolution in a namespace."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from ground.printable import one_line
from schemas.definitions.types import PRIMITIVES, Name
from schemas.errors import InvalidSchema

__all__ = ["MAX_NAME", "check_definition", "check_name", "name_of", "nearest", "shown"]

MAX_NAME: Final = 1_024  # with namespace; canonical forms repeat names, so they must be bounded

_STRICT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def name_of(text: str, namespace: str | None) -> Name:
    """Resolves a name: with a dot it is a full name, without one it belongs to the namespace."""
    if "." in text:
        namespace_text, _, simple_name = text.rpartition(".")
        return Name(simple_name, namespace_text or None)
    return Name(text, namespace or None)


def check_name(name: object, what: str, *, strict: bool) -> str:
    """Returns the name if it is legal; raises InvalidSchema otherwise. Unless `strict`, letters and
    digits of any script are legal, as in registered schemas."""
    if not isinstance(name, str):
        raise InvalidSchema(f"{what} is {shown(name)}: expected a string")
    if _STRICT.fullmatch(name) or (not strict and _is_lax(name)):
        return name
    raise InvalidSchema(
        f"{what} {shown(name)} is illegal: letters, digits and _ are allowed, no digit first"
        if name
        else f"{what} is empty"
    )


def _is_lax(name: str) -> bool:
    """As Java's letters and digits, which are limited to 16 bits."""
    if not name or not all(
        character == "_"
        or (character < "\U00010000" and (character.isalpha() or character.isdecimal()))
        for character in name
    ):
        return False
    return not name[0].isdecimal()


def check_definition(name: Name, *, strict: bool) -> None:
    """Raises InvalidSchema unless a type may be defined under this name."""
    if len(name.full) > MAX_NAME:
        raise InvalidSchema(f"a name of more than {MAX_NAME:,} characters: {shown(name.full)}")
    check_name(name.simple, "the name", strict=strict)
    if strict and name.namespace is not None:
        for part in name.namespace.split("."):
            check_name(part, f"in the namespace {shown(name.namespace)}, the part", strict=True)
    if name.full in PRIMITIVES:
        raise InvalidSchema(f'a type cannot be named "{name.full}", like a primitive type')


def nearest(name: str, known: Sequence[str]) -> str | None:
    """Returns the known name most similar to a misspelt one; None if none is similar, or there are
    too many to compare."""
    if len(name) > 100 or len(known) > 500:
        return None
    similar_names = get_close_matches(
        name, [known_name for known_name in known if len(known_name) <= 100], 1, 0.7
    )
    return similar_names[0] if similar_names else None


def shown(value: object) -> str:
    """Returns the value as text for a one-line message, shortened."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return _quoted(value) if isinstance(value, str) else repr(value)[:60]


def _quoted(text: str) -> str:
    short_text = text if len(text) <= 60 else f"{text[:57]}…"
    return f'"{one_line(short_text)}"'
