"""Names of topics, users and groups: Kafka's rules, checked before a name becomes a path.

A user's name may contain characters that node names may not: its path is escaped as by Kafka's
`Sanitizer`, which is URL encoding with a few more characters. A group may have any name up to a
length, including the empty one: Kafka's brokers accept offsets for a group without a name.
"""

import re
from collections.abc import Iterable
from urllib.parse import quote, unquote

from cluster.errors import InvalidGroupName, InvalidTopicName, InvalidUserName

LONGEST_NAME = 249  # leaves room for "-" and a partition number in a file name of 255 bytes

LONGEST_USER = 128

LONGEST_GROUP = 249  # any characters, each up to twelve in a path

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_SHOWN = 80


def check_topic_name(name: str) -> None:
    """Raises InvalidTopicName, with the reason, unless Kafka would accept the name."""
    if not name:
        raise InvalidTopicName("a topic's name cannot be empty")
    excerpt = repr(name if len(name) <= _SHOWN else name[:_SHOWN] + "…")
    if len(name) > LONGEST_NAME:
        raise InvalidTopicName(
            f"topic name {excerpt} has {len(name)} characters; at most {LONGEST_NAME} are allowed"
        )
    if name in {".", ".."}:
        raise InvalidTopicName(f"a topic cannot be named {excerpt}")
    if not _LEGAL.fullmatch(name):
        raise InvalidTopicName(
            f"topic name {excerpt} has a character other than ASCII letters, digits, '.', '_', '-'"
        )


def colliding(name: str, existing: Iterable[str]) -> str | None:
    """Returns an existing topic whose name differs from `name` only in '.' and '_'; None if there
    is none.

    Kafka rejects such a pair because both become one metric name; tools rely on that.
    """
    normalized_name = name.replace(".", "_")
    for existing_name in existing:
        if existing_name != name and existing_name.replace(".", "_") == normalized_name:
            return existing_name
    return None


def check_user_name(name: str) -> None:
    """Raises InvalidUserName, with the reason, unless the name is allowed for a user."""
    if not name:
        raise InvalidUserName("Username must not be empty")
    excerpt = repr(name if len(name) <= _SHOWN else name[:_SHOWN] + "…")
    if len(name) > LONGEST_USER:
        raise InvalidUserName(
            f"user name {excerpt} has {len(name)} characters; at most {LONGEST_USER} are allowed"
        )
    if not name.isprintable() or name in {".", ".."}:
        raise InvalidUserName(f"a user cannot be named {excerpt}")


def check_group_name(name: str) -> None:
    """Raises InvalidGroupName, with the reason, unless the name is allowed for a group."""
    excerpt = repr(name if len(name) <= _SHOWN else name[:_SHOWN] + "…")
    if len(name) > LONGEST_GROUP:
        raise InvalidGroupName(
            f"group name {excerpt} has {len(name)} characters; at most {LONGEST_GROUP} are allowed"
        )
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidGroupName(
            f"a group cannot be named {excerpt}: it is not valid Unicode"
        ) from None


def user_node_name(name: str) -> str:
    """Encodes a user's name as the name of a node, like Kafka's `Sanitizer.sanitize`."""
    return quote(name, safe="").replace("~", "%7E")


def user_of_node(node_name: str) -> str | None:
    """Decodes the name of a user's node; returns None if it is not the encoding of a valid user
    name."""
    try:
        name = unquote(node_name, errors="strict")
        check_user_name(name)
    except (UnicodeDecodeError, InvalidUserName):
        return None
    return name if user_node_name(name) == node_name else None
