"""Matches the paths of an input: patterns with `*`, `?`, `[…]` and `**`, and exclusions. Pure.

As in a shell, `*` stays within one name and does not match a leading dot; `**` matches any number
of folders, but neither symbolic links nor names with a leading dot. Patterns are matched folder by
folder: a folder has a set of *remainders*, the parts of patterns that may follow below it, so that
several patterns need one listing.
"""

import fnmatch
import os.path
import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec

Remainder = tuple[str, ...]
"""The parts of a pattern below a folder: at least one; the last matches a file's name."""

Remainders = frozenset[Remainder]

ANY_DEPTH = "**"
_END = r"\Z"  # of an expression of fnmatch; \z from Python 3.14


def split(pattern: str) -> tuple[str, Remainder]:
    """The literal folder at the beginning of a pattern, and the remainder."""
    parts = [part for part in os.path.normpath(pattern).split("/") if part]
    if not parts:
        parts = [ANY_DEPTH]
    if parts[-1] == ANY_DEPTH:
        parts.append("*")
    literal_count = 0
    while literal_count < len(parts) - 1 and not is_magic(parts[literal_count]):
        literal_count += 1
    return "/" + "/".join(parts[:literal_count]), tuple(parts[literal_count:])


def is_magic(part: str) -> bool:
    return any(character in part for character in "*?[")


def roots(patterns: Sequence[str]) -> dict[str, Remainders]:
    """The literal folders at which patterns begin, each with the remainders of its patterns."""
    remainders: dict[str, Remainders] = {}
    for pattern in patterns:
        root, remainder = split(pattern)
        remainders[root] = remainders.get(root, frozenset()) | {remainder}
    return remainders


class Steps(msgspec.Struct, frozen=True):
    """The parts of patterns that match directly below a folder."""

    literal_files: frozenset[str]
    files: re.Pattern[str] | None
    literal_folders: tuple[tuple[str, Remainder], ...]
    folders: tuple[tuple[re.Pattern[str], Remainder], ...]
    deep: Remainders  # for all folders, however deep

    @property
    def needs_listing(self) -> bool:
        return bool(self.files or self.folders or self.deep)

    @property
    def matters(self) -> bool:
        return self.needs_listing or bool(self.literal_files)

    @property
    def has_folders(self) -> bool:
        return bool(self.folders or self.deep)

    def below(self, name: str, *, is_link: bool) -> Remainders:
        """Returns the pattern remainders that apply inside the subfolder `name`; empty if it is not
        searched."""
        remainders = {
            remainder for folder_name, remainder in self.literal_folders if folder_name == name
        }
        remainders |= {remainder for pattern, remainder in self.folders if pattern.match(name)}
        if self.deep and not is_link and not name.startswith("."):
            remainders |= self.deep
        return frozenset(remainders)


@lru_cache(maxsize=4096)
def steps(remainders: Remainders) -> Steps:
    all_remainders = set(remainders)
    for remainder in remainders:
        depth = 0
        while remainder[depth] == ANY_DEPTH:
            depth += 1
            all_remainders.add(remainder[depth:])
    last_parts = {remainder[0] for remainder in all_remainders if len(remainder) == 1}
    magic = sorted(part for part in last_parts if is_magic(part))
    inner_remainders = sorted(
        remainder
        for remainder in all_remainders
        if len(remainder) > 1 and remainder[0] != ANY_DEPTH
    )
    return Steps(
        literal_files=frozenset(part for part in last_parts if not is_magic(part)),
        files=re.compile("|".join(_expression(part) for part in magic)) if magic else None,
        literal_folders=tuple(
            (remainder[0], remainder[1:])
            for remainder in inner_remainders
            if not is_magic(remainder[0])
        ),
        folders=tuple(
            (re.compile(_expression(remainder[0])), remainder[1:])
            for remainder in inner_remainders
            if is_magic(remainder[0])
        ),
        deep=frozenset(remainder for remainder in all_remainders if remainder[0] == ANY_DEPTH),
    )


class Exclusion:
    """Matches excluded files and folders. A pattern without `/` matches names, others paths."""

    def __init__(self, patterns: Sequence[str]) -> None:
        names = [fnmatch.translate(pattern) for pattern in patterns if "/" not in pattern]
        paths = [_path_expression(pattern) for pattern in patterns if "/" in pattern]
        self._names = re.compile("|".join(names)) if names else None
        self._paths = re.compile("|".join(paths)) if paths else None

    def __call__(self, name: str, path: str) -> bool:
        return bool(
            (self._names and self._names.match(name)) or (self._paths and self._paths.match(path))
        )


def _expression(part: str) -> str:
    """A part of a pattern as a regular expression for a whole name."""
    not_hidden = r"(?!\.)" if is_magic(part[:1]) else ""
    return not_hidden + fnmatch.translate(part)


def _path_expression(pattern: str) -> str:
    """A pattern as a regular expression for paths; a relative one may begin in any folder."""
    beginning = "/" if pattern.startswith("/") else "(?:.*/)?"
    *folders, name = pattern.strip("/").split("/")
    folder_expressions = [
        "(?:[^/]+/)*" if part == ANY_DEPTH else _within(part) + "/" for part in folders
    ]
    name_expression = ".+" if name == ANY_DEPTH else _within(name)
    return f"(?s:{beginning}{''.join(folder_expressions)}{name_expression})\\Z"


def _within(part: str) -> str:
    """A part of a pattern as a regular expression that never matches a slash."""
    expressions = []
    for piece in re.findall(r"\[!?\]?[^\]]*\]|.", part, re.DOTALL):
        if piece == "*":
            expressions.append("[^/]*")
        elif piece == "?":
            expressions.append("[^/]")
        elif len(piece) > 1:
            expressions.append("(?!/)" + fnmatch.translate(piece)[: -len(_END)])
        else:
            expressions.append(re.escape(piece))
    return "".join(expressions)
