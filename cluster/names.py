"""Names of topics, users and groups: Kafka's rules, checked before one becomes a path.

A user's name may hold what no node's may: in its path it is written as Kafka's `Sanitizer` does,
which is what a URL has, with a few more letters escaped. A group may have any name that is not too
long, also the empty one: Kafka's brokers take offsets for a group without a name.
"""

import re
from collections.abc import Iterable
from urllib.parse import quote, unquote

from cluster.errors import InvalidGroupName, InvalidTopicName, InvalidUserName

LONGEST_NAME = 249  # leaves room for "-" and a partition number in a file name of 255 bytes

LONGEST_USER = 128

LONGEST_GROUP = 249  # of any letters, each up to twelve in a path

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


def check_user_name(name: str) -> None:
    """Raise InvalidUserName, saying what is wrong, unless a user may be called that."""
    if not name:
        raise InvalidUserName("Username must not be empty")
    shown = repr(name if len(name) <= _SHOWN else name[:_SHOWN] + "…")
    if len(name) > LONGEST_USER:
        raise InvalidUserName(
            f"user name {shown} has {len(name)} characters; {LONGEST_USER} are allowed"
        )
    if not name.isprintable() or name in {".", ".."}:
        raise InvalidUserName(f"a user cannot be named {shown}")


def check_group_name(name: str) -> None:
    """Raise InvalidGroupName, saying what is wrong, unless a group may be called that."""
    shown = repr(name if len(name) <= _SHOWN else name[:_SHOWN] + "…")
    if len(name) > LONGEST_GROUP:
        raise InvalidGroupName(
            f"group name {shown} has {len(name)} characters; {LONGEST_GROUP} are allowed"
        )
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidGroupName(f"a group cannot be named {shown}: it is no Unicode") from None


def user_node_name(name: str) -> str:
    """How a user's node is called: what Kafka's `Sanitizer.sanitize` makes of the name."""
    return quote(name, safe="").replace("~", "%7E")


def user_of_node(node_name: str) -> str | None:
    """Whose node that is; None if no user's of ours."""
    try:
        name = unquote(node_name, errors="strict")
        check_user_name(name)
    except (UnicodeDecodeError, InvalidUserName):
        return None
    return name if user_node_name(name) == node_name else None
