"""The findings of a comparison: a tree, and its conversion to a list for display.

A finding is one object, and what contains it refers to it (`Below`). Many may refer to the same
one, so a tree written out could exceed any memory: `written_out` stops at a number of findings and
of characters, and indicates that. `Effort` limits the work before that.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

import msgspec

from schemas.definitions.types import Type

MOST_EFFORT: Final = 250_000  # pairs, fields, symbols: a second in the worst case
MOST_FINDINGS: Final = 1_000
MOST_CHARACTERS: Final = 1 << 20
MOST_STEPS: Final = 100_000  # through the tree while writing it out
LONGEST_PATH: Final = 400  # parts of a JSON pointer
LONGEST_DETAIL: Final = 10 * 1024


class IncompatibilityKind(StrEnum):
    """The kinds of incompatibility: Java's names, then ours for cases where Java raises an
    exception, or takes too long."""

    NAME_MISMATCH = "NAME_MISMATCH"
    FIXED_SIZE_MISMATCH = "FIXED_SIZE_MISMATCH"
    MISSING_ENUM_SYMBOLS = "MISSING_ENUM_SYMBOLS"
    READER_FIELD_MISSING_DEFAULT_VALUE = "READER_FIELD_MISSING_DEFAULT_VALUE"
    TYPE_MISMATCH = "TYPE_MISMATCH"
    MISSING_UNION_BRANCH = "MISSING_UNION_BRANCH"
    AMBIGUOUS_FIELD = "AMBIGUOUS_FIELD"
    NOT_JUDGED = "NOT_JUDGED"
    MORE = "MORE"


class Incompatibility(msgspec.Struct, frozen=True):
    """A finding: its kind, its place (a JSON pointer into the reader's schema), and details."""

    kind: str
    path: str
    detail: str


Steps: TypeAlias = tuple[str, ...]
Place: TypeAlias = "tuple[Place, Steps] | None"
ROOT: Final[Place] = None


class FoundBelow(NamedTuple):
    """An incompatibility and the two types in which it was found. There may be a million of
    them."""

    kind: IncompatibilityKind
    place: Place  # where the pair was first met
    steps: Steps  # from the pair to the fault
    detail: str
    reader: Type
    writer: Type
    names: tuple[str, ...] = ()  # the fields, symbols or sizes concerned
    because: "Found" = ()  # for a missing branch: findings in the one probably meant


class Below(NamedTuple):
    """Findings in a part of the reader's type, or of the writer's if that is a union."""

    reader: Type
    part: str  # a field's name, else ""
    steps: Steps
    found: "Found"
    enum_without_source: bool = False  # see `_records` in incompatibilities.py


Found: TypeAlias = Sequence[FoundBelow | Below]
COMPATIBLE: Final[Found] = ()


class NotJudged(Exception):
    """Raised when a pair cannot be judged, which counts as incompatible."""

    def __init__(self, finding: FoundBelow) -> None:
        super().__init__(finding.detail)
        self.finding = finding


class TooMuch(Exception):
    """Raised when the effort allowed for a comparison is spent."""


class Effort:
    """The work that a comparison may still take."""

    def __init__(self, most: int = MOST_EFFORT) -> None:
        self.left = most

    def spend(self, amount: int) -> None:
        self.left -= amount
        if self.left < 0:
            raise TooMuch


def written_out(findings: Found) -> list[Incompatibility]:
    """Returns all findings in order, up to the limits; the last entry has the number of omitted
    findings."""
    entries: list[Incompatibility] = []
    character_count = step_count = 0
    iterators = [iter(findings)]
    while iterators:
        item = next(iterators[-1], None)
        step_count += 1
        if item is None:
            iterators.pop()
        elif (
            step_count > MOST_STEPS
            or len(entries) >= MOST_FINDINGS
            or character_count > MOST_CHARACTERS
        ):
            entries.append(
                Incompatibility(
                    IncompatibilityKind.MORE, "/", "further incompatibilities are left out"
                )
            )
            break
        elif isinstance(item, Below):
            iterators.append(iter(item.found))
        else:
            entry = Incompatibility(item.kind, pointer(item.place, item.steps), _cut(item.detail))
            entries.append(entry)
            character_count += len(entry.path) + len(entry.detail)
    return entries


def pointer(place: Place, steps: Steps) -> str:
    """Returns the place as a JSON pointer; only its end if it is very long."""
    parts = list(reversed(steps))
    while place is not None and len(parts) < LONGEST_PATH:
        place, steps = place
        parts += reversed(steps)
    if place is not None:
        parts.append("…")
    return "/" + "/".join(reversed(parts))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_DETAIL else text[: LONGEST_DETAIL - 1] + "…"
