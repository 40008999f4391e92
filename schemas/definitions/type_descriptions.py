"""Describes types in words: `null or string`, `array of long (timestamp-millis)`."""

import json
from typing import Any, Final

import msgspec

from schemas.definitions.types import Array, Fixed, Map, Named, Record, Type, Union

__all__ = ["shown_value", "type_in_words"]

_DEEPEST: Final = 4  # deeper types are abbreviated
_MOST_BRANCHES: Final = 20
_LONGEST: Final = 60


def type_in_words(type_: Type, depth: int = 0) -> str:
    """Returns a phrase for the type. Named types appear with their full name."""
    if depth > _DEEPEST:
        return "…"
    parts = _parts(type_)
    inner_words = [type_in_words(part, depth + 1) for part in parts.inner[:_MOST_BRANCHES]]
    if parts.kind == "union":
        if len(parts.inner) > _MOST_BRANCHES:
            inner_words.append(f"{len(parts.inner) - _MOST_BRANCHES} more")
        words = " or ".join(inner_words)
        return f"({words})" if depth else words or "a union of nothing"
    if inner_words:
        return f"{parts.kind} of {inner_words[0]}"
    name = f"{parts.kind} {parts.name}" if parts.name else parts.kind
    details = parts.details()
    return f"{name} ({', '.join(details)})" if details else name


def shown_value(value: object) -> str:
    """Returns the value as JSON, shortened."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


class _Parts(msgspec.Struct, frozen=True):
    """The described parts of a type."""

    kind: str
    name: str = ""
    inner: list[Any] = []
    size: int | None = None
    props: dict[str, Any] = {}

    def details(self) -> list[str]:
        """Returns the size of a fixed type, and a logical type with its parameters."""
        details = [] if self.size is None else [f"{self.size} bytes"]
        logical = self.props.get("logicalType")
        if isinstance(logical, str):
            precision = f" {self.props.get('precision')},{self.props.get('scale') or 0}"
            details.append(f"{logical}{precision if logical == 'decimal' else ''}")
        return details


def _parts(type_: Type) -> _Parts:
    match type_:
        case Union():
            return _Parts("union", inner=list(type_.branches))
        case Array():
            return _Parts("array", inner=[type_.items])
        case Map():
            return _Parts("map", inner=[type_.values])
        case Record(is_error=True):
            return _Parts("error", type_.name.full, props=type_.props)
        case Named():
            size = type_.size if isinstance(type_, Fixed) else None
            return _Parts(type_.kind, type_.name.full, size=size, props=type_.props)
    return _Parts(type_.kind, props=type_.props)
