"""The fields that a line was found to have, as JSON makes them: how they are looked at."""

from collections.abc import Mapping
from typing import Any

import msgspec

Fields = dict[str, Any]


def looked_up(value: Mapping[str, Any], name: str) -> Any:
    """A field, or one of an object in it (`user.id`); None if it is not there. Never raises."""
    found = value.get(name)
    if found is not None or "." not in name:
        return found
    inner: Any = value
    for part in name.split("."):
        if not isinstance(inner, dict):
            return None
        inner = inner.get(part)
    return inner


def text_of(value: Any) -> str:
    """Text as it is, everything else as JSON writes it."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (ValueError, RecursionError):  # a number of thousands of digits
        return ""
