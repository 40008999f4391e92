"""Which names an input means: patterns with `*`, `?`, `[…]` and `**`, and what is excluded.

As in a shell, `*` stays within one name and does not match a leading dot; `**` stands for any
number of folders, which are not reached through symbolic links and whose names have no leading
dot. A pattern is followed folder by folder: a folder is known by the set of what may still follow
below it, its *rests*, so that several patterns need one listing. Pure.
"""

import fnmatch
import os.path
import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec

Rest = tuple[str, ...]
"""The parts of a pattern that lie below a folder: at least one; the last is a file's name."""

Rests = frozenset[Rest]

ANY_DEPTH = "**"


def split(pattern: str) -> tuple[str, Rest]:
    """The folder up to which a pattern is literal, and what follows."""
    parts = [part for part in os.path.normpath(pattern).split("/") if part]
    if not parts:
        parts = [ANY_DEPTH]
    if parts[-1] == ANY_DEPTH:
        parts.append("*")
    literal = 0
    while literal < len(parts) - 1 and not is_magic(parts[literal]):
        literal += 1
    return "/" + "/".join(parts[:literal]), tuple(parts[literal:])


def is_magic(part: str) -> bool:
    return any(character in part for character in "*?[")


def roots(patterns: Sequence[str]) -> dict[str, Rests]:
    """Where to begin, and what is sought there."""
    found: dict[str, Rests] = {}
    for pattern in patterns:
        root, rest = split(pattern)
        found[root] = found.get(root, frozenset()) | {rest}
    return found


class Steps(msgspec.Struct, frozen=True):
    """What may follow directly below a folder."""

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
        """Whether it matters which names come and go there."""
        return self.needs_listing or bool(self.literal_files)

    @property
    def has_folders(self) -> bool:
        return bool(self.folders or self.deep)

    def below(self, name: str, *, is_link: bool) -> Rests:
        """What is sought in the folder of that name; nothing if it is of no interest."""
        found = {rest for literal, rest in self.literal_folders if literal == name}
        found |= {rest for pattern, rest in self.folders if pattern.match(name)}
        if self.deep and not is_link and not name.startswith("."):
            found |= self.deep
        return frozenset(found)


@lru_cache(maxsize=4096)
def steps(rests: Rests) -> Steps:
    everything = set(rests)
    for rest in rests:
        depth = 0
        while rest[depth] == ANY_DEPTH:
            depth += 1
            everything.add(rest[depth:])
    last = {rest[0] for rest in everything if len(rest) == 1}
    magic = sorted(part for part in last if is_magic(part))
    inner = sorted(rest for rest in everything if len(rest) > 1 and rest[0] != ANY_DEPTH)
    return Steps(
        literal_files=frozenset(part for part in last if not is_magic(part)),
        files=re.compile("|".join(_expression(part) for part in magic)) if magic else None,
        literal_folders=tuple((rest[0], rest[1:]) for rest in inner if not is_magic(rest[0])),
        folders=tuple(
            (re.compile(_expression(rest[0])), rest[1:]) for rest in inner if is_magic(rest[0])
        ),
        deep=frozenset(rest for rest in everything if rest[0] == ANY_DEPTH),
    )


class Exclusion:
    """What is left out, folders with all that is in them. A pattern without `/` is a name's."""

    def __init__(self, patterns: Sequence[str]) -> None:
        names = [fnmatch.translate(each) for each in patterns if "/" not in each]
        paths = [_path_expression(each) for each in patterns if "/" in each]
        self._names = re.compile("|".join(names)) if names else None
        self._paths = re.compile("|".join(paths)) if paths else None

    def __call__(self, name: str, path: str) -> bool:
        return bool(
            (self._names and self._names.match(name)) or (self._paths and self._paths.match(path))
        )


def _expression(part: str) -> str:
    """A part of a pattern as a regular expression for a whole name."""
    visible = r"(?!\.)" if is_magic(part[:1]) else ""
    return visible + fnmatch.translate(part)


def _path_expression(pattern: str) -> str:
    """A pattern for whole paths; one that is relative may begin in any folder."""
    beginning = "/" if pattern.startswith("/") else "(?:.*/)?"
    *folders, name = pattern.strip("/").split("/")
    inner = ["(?:[^/]+/)*" if each == ANY_DEPTH else _within(each) + "/" for each in folders]
    return f"(?s:{beginning}{''.join(inner)}{'.+' if name == ANY_DEPTH else _within(name)})\\Z"


def _within(part: str) -> str:
    """A part of a pattern as a regular expression that never matches a slash."""
    found = []
    for piece in re.findall(r"\[!?\]?[^\]]*\]|.", part, re.DOTALL):
        if piece == "*":
            found.append("[^/]*")
        elif piece == "?":
            found.append("[^/]")
        elif len(piece) > 1:
            found.append("(?!/)" + fnmatch.translate(piece).removesuffix(r"\Z"))
        else:
            found.append(re.escape(piece))
    return "".join(found)
