"""Decides which topics a loader loads, by the patterns in its configuration. Pure."""

from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Final

_COPIED_SCHEMAS: Final = "._schemas"


def is_taken(topic: str, patterns: Collection[str], exclude: Collection[str]) -> bool:
    """Whether a topic is named in full, or matches a pattern: `*`, `?` and `[…]` work as in file
    names. Patterns match neither internal topics, whose names begin with `_`, nor a mirror's copies
    of another cluster's schemas."""
    is_internal = topic.startswith("_") or topic.endswith(_COPIED_SCHEMAS)
    matches = topic in patterns or (
        not is_internal and any(fnmatchcase(topic, pattern) for pattern in patterns)
    )
    return matches and not any(fnmatchcase(topic, pattern) for pattern in exclude)
