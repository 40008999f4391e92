"""Compatibility of a schema with earlier ones: the seven levels of Confluent's registry.

BACKWARD: the new schema reads data written with the old one. FORWARD: the old one reads data of the
new one. FULL: both. `_TRANSITIVE` checks all earlier versions, newest first, up to the first one
that is incompatible. `incompatibilities` compares two schemas.
"""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from schemas.evolution.confluent_texts import old_schema, written_as_confluent
from schemas.evolution.explanations import Side, explanations
from schemas.evolution.findings import Effort, Found
from schemas.evolution.incompatibilities import Incompatibility, incompatibilities, judge
from schemas.parsing import AvroSchema

__all__ = ["Incompatibility", "Level", "explain", "incompatibilities", "messages"]


class Level(StrEnum):
    """A compatibility level: which of a new and an old schema must be able to read the other's
    data, and whether that is checked for the latest old version or for all."""

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
    """Returns the reasons why `new` is incompatible, in Confluent's words; none if it is
    compatible.

    `previous` are versions with their numbers, oldest first. The last line of Confluent's answer,
    with the registry's configuration, is not included.
    """
    texts: list[str] = []
    for refusal in _refusals(level, new, previous):
        texts += written_as_confluent(refusal.found, new_reads=refusal.new_reads)
        # As Confluent does: only after the second of FULL's two directions.
        if refusal.new_reads or not level.startswith("FULL"):
            texts += old_schema(refusal.version, refusal.old)
    return texts


def explain(level: Level, new: AvroSchema, previous: Sequence[tuple[int, AvroSchema]]) -> list[str]:
    """Returns the reasons for people: the place, the fault, which schema cannot read the other's
    data, and the fix."""
    sentences: list[str] = []
    for refusal in _refusals(level, new, previous):
        new_side, old_side = Side("this schema", is_new=True), Side(f"version {refusal.version}")
        reader, writer = (new_side, old_side) if refusal.new_reads else (old_side, new_side)
        sentences += explanations(refusal.found, reader, writer)
    return sentences


class _Refusal(msgspec.Struct, frozen=True):
    """The incompatibilities with an old schema. `new_reads`: the new schema is the reader."""

    version: int
    old: AvroSchema
    new_reads: bool
    found: Found


def _refusals(
    level: Level, new: AvroSchema, previous: Sequence[tuple[int, AvroSchema]]
) -> list[_Refusal]:
    """The refusals of the newest version that has any."""
    directions = [False] * level.startswith(("FORWARD", "FULL"))
    directions += [True] * level.startswith(("BACKWARD", "FULL"))
    checked_schemas = previous if level.endswith("_TRANSITIVE") else previous[-1:]
    for version, earlier_schema in reversed(checked_schemas):
        refusals = []
        for new_reads in directions:
            reader, writer = (new, earlier_schema) if new_reads else (earlier_schema, new)
            if findings := judge(reader.type, writer.type, Effort()):
                refusals.append(_Refusal(version, earlier_schema, new_reads, findings))
        if refusals:
            return refusals
    return []
