"""Topic names: Kafka's rules, checked before a name becomes a path of a node or a directory."""

import re
from collections.abc import Iterable

from cluster.errors import InvalidTopicName

LONGEST_NAME = 249  # leaves room for "-" and a partition number in a file name of 255 bytes

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_SHOWN = 80


def check_topic_name(name: str) -> None:
    """Raise InvalidTopicName, saying what is wrong, unless Kafka would accept the name."""
    if not name:
        raise InvalidTopicName("a topic's name cannot be empty")
    shown = repr(name if len(name) <= _SHOWN else name[:_SHOWN] + "…")
    if len(name) > LONGEST_NAME:
        raise InvalidTopicName(
            f"topic name {shown} has {len(name)} characters; {LONGEST_NAME} are allowed"
        )
    if name in {".", ".."}:
        raise InvalidTopicName(f"a topic cannot be named {shown}")
    if not _LEGAL.fullmatch(name):
        raise InvalidTopicName(
            f"topic name {shown} has a character other than ASCII letters, digits, '.', '_', '-'"
        )


def colliding(name: str, existing: Iterable[str]) -> str | None:
    """The existing topic whose name differs from `name` only in '.' and '_', if there is one.

    Kafka refuses such a pair because both make one metric name; tools rely on it.
    """
    plain = name.replace(".", "_")
    for other in existing:
        if other != name and other.replace(".", "_") == plain:
            return other
    return None
