"""Judges landed offsets that a loader has not compared with what agents have signed of them.

What an agent has stated just before a load, the next load compares; until then the hours wait. If a
later load has not compared it, either, the loader has not seen the agent's statement, which the
audit has seen. So brokers show the two different ledgers, or a limit of the loader was reached.
"""

from collections.abc import Iterator
from typing import Final

from audit.reconciling import words
from audit.reconciling.faults import Fault
from audit.reconciling.findings import FaultKind, Finding
from audit.reconciling.picture import TierKind, TopicPicture, UncomparedOffsets
from audit.reconciling.topic_verdict import Wait
from audit.reconciling.windows import Axis

_HOUR: Final = 3_600_000
_LONGEST: Final = 26 * _HOUR  # loads may be daily


def uncompared(picture: TopicPicture) -> Iterator[Fault]:
    """Yields offsets that a later load should have compared."""
    for part in picture.uncompared:
        if part.tier in picture.tiers and _is_overdue(part, picture):
            finding = Finding(
                kind=FaultKind.UNPROVEN,
                tier=part.tier.kind.value,
                destination=part.tier.destination,
                partition=part.partition,
                offset=part.first,
                offsets=part.next_offset - part.first,
                from_time=part.from_time,
                to_time=part.to_time,
            )
            count = part.next_offset - part.first
            yield Fault(finding, count=count, reason=words.not_compared(), since=part.since)


def awaited(picture: TopicPicture, axis: Axis) -> dict[int, set[str]]:
    """Returns the windows with offsets that the next load compares, and what they wait for."""
    return {
        number: {TierKind.HDFS.value}
        for part in _young(picture)
        for number in axis.touched(part.from_time, part.to_time)
    }


def waits(picture: TopicPicture) -> Iterator[Wait]:
    parts_by_destination: dict[str, list[UncomparedOffsets]] = {}
    for part in _young(picture):
        if part.from_time < picture.to_time and picture.from_time < part.to_time:
            parts_by_destination.setdefault(part.tier.destination, []).append(part)
    for parts in parts_by_destination.values():
        first = min(parts, key=lambda part: part.since)
        text = words.not_compared_yet(first, len(parts))
        yield Wait(on=TierKind.HDFS.value, words=text, since=first.since)


def _young(picture: TopicPicture) -> Iterator[UncomparedOffsets]:
    for part in picture.uncompared:
        if part.tier in picture.tiers and not _is_overdue(part, picture):
            yield part


def _is_overdue(part: UncomparedOffsets, picture: TopicPicture) -> bool:
    age = picture.now - part.since
    return age >= _LONGEST or (age >= _HOUR and part.loaded >= part.since)
