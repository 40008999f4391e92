"""Values as TLC prints them, and in a form that people read."""

import re
from collections.abc import Mapping
from typing import Final

# A name stands for itself: a broker, or None. A record has its fields' names as keys.
Value = int | bool | str | tuple["Value", ...] | frozenset["Value"] | Mapping["Value", "Value"]

_WORDS: Final = re.compile(r'<<|>>|\|->|:>|@@|[{}\[\](),]|-?\d+|"[^"]*"|\w+')


class Frozen(dict[Value, Value]):
    """A mapping that may be in a set. Nobody changes it."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


def parse(text: str) -> Value:
    """The value that TLC has printed."""
    words = _WORDS.findall(text)
    words.reverse()
    value = _value(words)
    if words:
        raise ValueError(f"more than a value: {text}")
    return value


def _value(words: list[str]) -> Value:
    word = words.pop()
    if word == "<<":
        return tuple(_until(words, ">>"))
    if word == "{":
        return frozenset(_until(words, "}"))
    if word == "[":
        return _mapping(words, "|->", ",", "]")
    if word == "(":
        return _mapping(words, ":>", "@@", ")")
    if word in {"TRUE", "FALSE"}:
        return word == "TRUE"
    return int(word) if word.lstrip("-").isdigit() else word.strip('"')


def _until(words: list[str], end: str) -> list[Value]:
    found: list[Value] = []
    while words[-1] != end:
        found.append(_value(words))
        if words[-1] == ",":
            words.pop()
    words.pop()
    return found


def _mapping(words: list[str], arrow: str, comma: str, end: str) -> Frozen:
    found = Frozen()
    while words[-1] != end:
        key = _value(words)
        if words.pop() != arrow:
            raise ValueError(f"no {arrow} after {key}")
        found[key] = _value(words)
        if words[-1] == comma:
            words.pop()
    words.pop()
    return found


def shown(value: Value) -> str:
    """As short as it can be understood: a record of a log is `id@epoch`."""
    if isinstance(value, tuple):
        return "[" + " ".join(map(shown, value)) + "]"
    if isinstance(value, frozenset):
        return "{" + " ".join(sorted(map(shown, value))) + "}"
    if isinstance(value, Mapping):
        if value.keys() == {"epoch", "id"}:
            return f"{value['id']}@{value['epoch']}"
        return "(" + ", ".join(f"{key} {shown(each)}" for key, each in value.items()) + ")"
    return str(value)
