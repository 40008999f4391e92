"""Matches the paths of an input: patterns with `*`, `?`, `[…]` and `**`, and exclusions. Pure.

As in a shell, `*` stays within one name and does not match a leading dot; `**` matches any number
of folders, but neither symbolic links nor names with a leading dot. Patterns are matched folder by
folder: a folder has a set of *rests*, the parts of patterns that may follow below it, so that
several patterns need one listing.
"""

import fnmatch
import os.path
import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec

Rest = tuple[str, ...]
"""The parts of a pattern below a folder: at least one; the last matches a file's name."""

Rests = frozenset[Rest]

ANY_DEPTH = "**"
_END = r"\Z"  # of an expression of fnmatch; \z from Python 3.14


def split(pattern: str) -> tuple[str, Rest]:
    """The literal folder at the beginning of a pattern, and the rest."""
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


def roots(patterns: Sequence[str]) -> dict[str, Rests]:
    """The literal folders at which patterns begin, each with the remainders of its patterns."""
    rests: dict[str, Rests] = {}
    for pattern in patterns:
        root, rest = split(pattern)
        rests[root] = rests.get(root, frozenset()) | {rest}
    return rests


class Steps(msgspec.Struct, frozen=True):
    """The parts of patterns that match directly below a folder."""

    literal_files: frozenset[str]
    files: re.Pattern[str] | None
    literal_folders: tuple[tuple[str, Rest], ...]
    folders: tuple[tuple[re.Pattern[str], Rest], ...]
    deep: Rests  # for all folders, however deep

    @property
    def needs_listing(self) -> bool:
        return bool(self.files or self.folders or self.deep)

    @property
    def matters(self) -> bool:
        return self.needs_listing or bool(self.literal_files)

    @property
    def has_folders(self) -> bool:
        return bool(self.folders or self.deep)

    def below(self, name: str, *, is_link: bool) -> Rests:
        """Returns the pattern remainders that apply inside the subfolder `name`; empty if it is not
        searched."""
        rests = {rest for folder_name, rest in self.literal_folders if folder_name == name}
        rests |= {rest for pattern, rest in self.folders if pattern.match(name)}
        if self.deep and not is_link and not name.startswith("."):
            rests |= self.deep
        return frozenset(rests)


@lru_cache(maxsize=4096)
def steps(rests: Rests) -> Steps:
    all_rests = set(rests)
    for rest in rests:
        depth = 0
        while rest[depth] == ANY_DEPTH:
            depth += 1
            all_rests.add(rest[depth:])
    last_parts = {rest[0] for rest in all_rests if len(rest) == 1}
    magic = sorted(part for part in last_parts if is_magic(part))
    inner_rests = sorted(rest for rest in all_rests if len(rest) > 1 and rest[0] != ANY_DEPTH)
    return Steps(
        literal_files=frozenset(part for part in last_parts if not is_magic(part)),
        files=re.compile("|".join(_expression(part) for part in magic)) if magic else None,
        literal_folders=tuple((rest[0], rest[1:]) for rest in inner_rests if not is_magic(rest[0])),
        folders=tuple(
            (re.compile(_expression(rest[0])), rest[1:])
            for rest in inner_rests
            if is_magic(rest[0])
        ),
        deep=frozenset(rest for rest in all_rests if rest[0] == ANY_DEPTH),
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
