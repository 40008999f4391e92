"""Counts text that was shipped differently from its file, by kind, and files that are not read.

Rules:

1. Only text in events counts. A dead letter has its own reason, and a filtered line is not
   delivered: neither is altered text.
2. Counts belong to a piece of a file: one journal entry takes over both
(`agent.accounting.parcels`), so a
   killed agent neither loses nor doubles a count.
3. A clean piece has no counts, and costs nothing.

Field names come from lines: `MOST_FIELDS` of them are counted by name, the others together under
an empty name.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from agent.accounting.runs import SourceId

MOST_FIELDS: Final = 16
_LONGEST_NAME: Final = 100


class Alteration(StrEnum):
    """The kind of alteration, as the ledger names it."""

    OTHER = "other"  # of a later version
    REPLACED = "replaced"
    CUT = "cut"
    DROPPED = "dropped"
    UNREAD = "unread"


class Altered(msgspec.Struct, frozen=True):
    """An alteration of one piece of a file. `count` is the number of characters replaced, bytes cut
    off, values dropped, or files not read; `name` is the field's name, `hint` the encoding that the
    text appears to have."""

    kind: Alteration
    lines: int
    count: int
    name: str = ""
    hint: str = ""


class AlteredText(msgspec.Struct, frozen=True):
    """A statement for the ledger about altered text in the events of one file between two event
    times. For an unread file, it has no source."""

    number: int
    topic: str
    input: str
    source: SourceId
    path: str
    altered: Altered
    from_millis: int
    to_millis: int


class DroppedFields(msgspec.Struct):
    """Counts dropped values by field name."""

    counts: dict[str, int] = {}

    def add(self, names: Iterable[str], count: int = 1) -> None:
        for name in names:
            field_name = name[:_LONGEST_NAME]
            if field_name not in self.counts and len(self.counts) >= MOST_FIELDS:
                field_name = ""
            self.counts[field_name] = self.counts.get(field_name, 0) + count

    def altered(self) -> tuple[Altered, ...]:
        return tuple(
            Altered(Alteration.DROPPED, count, count, name) for name, count in self.counts.items()
        )


def summed(first: Altered, other: Altered) -> Altered:
    """The sum of two alterations of the same kind and name."""
    return replace(
        first,
        lines=first.lines + other.lines,
        count=first.count + other.count,
        hint=first.hint or other.hint,
    )
