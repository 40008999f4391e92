"""Whether a schema may follow those before it: the seven levels, as Confluent's registry has them.

BACKWARD asks whether the new schema reads what was written with the old one, FORWARD the other way
round, FULL both. `_TRANSITIVE` asks it of all earlier versions, the newest first, and stops at the
first that says no. What stands between two schemas is found in `incompatibilities`.
"""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from schemas.evolution.confluents_words import old_schema, written_as_confluent
from schemas.evolution.findings import Effort, Found
from schemas.evolution.incompatibilities import Incompatibility, incompatibilities, judge
from schemas.evolution.plain_words import Side, in_words
from schemas.parsing import AvroSchema

__all__ = ["Incompatibility", "Level", "explain", "incompatibilities", "messages"]


class Level(StrEnum):
    """Who must be able to read whom, and whether that is asked of all earlier versions."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"


def messages(
    level: Level, new: AvroSchema, previous: Sequence[tuple[int, AvroSchema]]
) -> list[str]:
    """Why `new` may not follow, in Confluent's words; nothing if it may.

    `previous` are versions with their numbers, the oldest first. The line that ends Confluent's
    answer says how the registry is configured, and is not made here.
    """
    said: list[str] = []
    for refusal in _refusals(level, new, previous):
        said += written_as_confluent(refusal.found, new_reads=refusal.new_reads)
        # As Confluent: after the second of FULL's two directions, so not always.
        if refusal.new_reads or not level.startswith("FULL"):
            said += old_schema(refusal.version, refusal.old)
    return said


def explain(level: Level, new: AvroSchema, previous: Sequence[tuple[int, AvroSchema]]) -> list[str]:
    """The same for people: a sentence each says where, what, who cannot read whom, and the cure."""
    said: list[str] = []
    for refusal in _refusals(level, new, previous):
        this, other = Side("this schema", is_new=True), Side(f"version {refusal.version}")
        reader, writer = (this, other) if refusal.new_reads else (other, this)
        said += in_words(refusal.found, reader, writer)
    return said


class _Refusal(msgspec.Struct, frozen=True):
    """What stands between the new schema and an old one, of which `new_reads` says who reads."""

    version: int
    old: AvroSchema
    new_reads: bool
    found: Found


def _refusals(
    level: Level, new: AvroSchema, previous: Sequence[tuple[int, AvroSchema]]
) -> list[_Refusal]:
    """Those of one version: the newest that has any."""
    directions = [False] * level.startswith(("FORWARD", "FULL"))
    directions += [True] * level.startswith(("BACKWARD", "FULL"))
    asked = previous if level.endswith("_TRANSITIVE") else previous[-1:]
    for version, old in reversed(asked):
        refusals = []
        for new_reads in directions:
            reader, writer = (new, old) if new_reads else (old, new)
            if found := judge(reader.type, writer.type, Effort()):
                refusals.append(_Refusal(version, old, new_reads, found))
        if refusals:
            return refusals
    return []
