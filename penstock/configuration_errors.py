"""What is wrong with a configuration, in one line.

broker.yaml:7: topic_defaults.retention_ms: unknown key; did you mean retention.ms?
"""

import difflib
from collections.abc import Sequence

_LONGEST_KEY = 120


class ConfigurationError(Exception):
    """`where` is file and line (or the option), `key` the dotted path; both may be empty."""

    def __init__(self, where: str, key: str, message: str) -> None:
        key = key if len(key) <= _LONGEST_KEY else key[:_LONGEST_KEY] + "…"
        line = ": ".join(part for part in (where, key, message) if part)
        super().__init__("".join(map(_printable, line)))
        self.where = where
        self.key = key


def unknown_key(where: str, key: str, name: str, known: Sequence[str]) -> ConfigurationError:
    """The error for the key `name`, with the nearest that exists."""
    near = difflib.get_close_matches(name[:_LONGEST_KEY], known, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else f"known keys are {', '.join(known)}"
    return ConfigurationError(where, key, f"unknown key; {hint}")


def _printable(character: str) -> str:
    """Keys and values may hold anything; an error stays one line and moves no cursor."""
    return character if character.isprintable() else character.encode("unicode_escape").decode()
