"""What a comparison of two schemas found: a tree at first, then a list that can be shown.

A finding stands where it was made. What contains it points to it (`Below`), and many may point to
the same one, so that a tree written out can be larger than any memory: `written_out` stops at a
number of findings and of characters, and says that it did. `Effort` bounds the work before that.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

import msgspec

from schemas.definitions.types import Type

MOST_EFFORT: Final = 250_000  # pairs, fields, symbols: at the very worst a second
MOST_FINDINGS: Final = 1_000
MOST_CHARACTERS: Final = 1 << 20
MOST_STEPS: Final = 100_000  # through the tree, when it is written out
LONGEST_PATH: Final = 400  # parts of a pointer
LONGEST_DETAIL: Final = 10 * 1024


class IncompatibilityKind(StrEnum):
    """Java's names, then ours for what Java answers with an exception, late, or at any length."""

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
    """One thing that cannot be read: which kind, where (a JSON pointer into the reader), what."""

    kind: str
    path: str
    detail: str


Steps: TypeAlias = tuple[str, ...]
Place: TypeAlias = "tuple[Place, Steps] | None"
ROOT: Final[Place] = None


class FoundBelow(NamedTuple):
    """An incompatibility with the two schemas that do not fit. There may be a million of them."""

    kind: IncompatibilityKind
    place: Place  # where the two were first met
    steps: Steps  # what stands wrong there, from them
    detail: str
    reader: Type
    writer: Type
    names: tuple[str, ...] = ()  # the fields, symbols or sizes it is about
    because: "Found" = ()  # a branch is missing: what is wrong with the one that was likely meant


class Below(NamedTuple):
    """What was found on the way to a part of the reader, or of the writer if it is a union."""

    reader: Type
    part: str  # a field's name, else ""
    steps: Steps
    found: "Found"
    enum_without_source: bool = False  # see `_records` in incompatibilities.py


Found: TypeAlias = Sequence[FoundBelow | Below]
COMPATIBLE: Final[Found] = ()


class NotJudged(Exception):
    """There is no verdict, which counts as one against the pair."""

    def __init__(self, finding: FoundBelow) -> None:
        super().__init__(finding.detail)
        self.finding = finding


class TooMuch(Exception):
    """The effort that one question may take is spent."""


class Effort:
    """How much work a question may still take."""

    def __init__(self, most: int = MOST_EFFORT) -> None:
        self.left = most

    def spend(self, amount: int) -> None:
        self.left -= amount
        if self.left < 0:
            raise TooMuch


def written_out(found: Found) -> list[Incompatibility]:
    """All findings, in order, as far as they can be shown; the last one tells if there are more."""
    listed: list[Incompatibility] = []
    characters = steps = 0
    left = [iter(found)]
    while left:
        thing = next(left[-1], None)
        steps += 1
        if thing is None:
            left.pop()
        elif steps > MOST_STEPS or len(listed) >= MOST_FINDINGS or characters > MOST_CHARACTERS:
            listed.append(
                Incompatibility(
                    IncompatibilityKind.MORE, "/", "further incompatibilities are left out"
                )
            )
            break
        elif isinstance(thing, Below):
            left.append(iter(thing.found))
        else:
            shown = Incompatibility(
                thing.kind, pointer(thing.place, thing.steps), _cut(thing.detail)
            )
            listed.append(shown)
            characters += len(shown.path) + len(shown.detail)
    return listed


def pointer(place: Place, steps: Steps) -> str:
    """The place as a JSON pointer; of a very long one, its end."""
    parts = list(reversed(steps))
    while place is not None and len(parts) < LONGEST_PATH:
        place, steps = place
        parts += reversed(steps)
    if place is not None:
        parts.append("…")
    return "/" + "/".join(reversed(parts))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_DETAIL else text[: LONGEST_DETAIL - 1] + "…"
