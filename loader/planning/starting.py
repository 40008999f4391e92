"""Where reading goes on in a partition, and what is missing there."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from loader.manifests import PartitionState
from loader.planning.facts import PartitionFacts
from loader.planning.gaps import Gap, Why
from loader.reports import LastBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The offset to read on at, if the gap before it is accepted."""

    offset: int
    skipped: int = 0
    leader_epoch: int = -1  # of the last batch before it that was read
    last: LastBatch | None = None  # that batch
    gap: Gap | None = None


def at_the_beginning(facts: PartitionFacts) -> Start:
    """Of a partition of a topic of which nothing has been read yet."""
    return Start(offset=facts.earliest)


def added(topic: str, partition: int, facts: PartitionFacts) -> Start:
    """Of a partition that is new, of a topic that is not: nothing of it may be missing."""
    if not facts.earliest:
        return at_the_beginning(facts)
    lost = Gap(topic=topic, partition=partition, first=0, end=facts.earliest, why=Why.RETENTION)
    return Start(offset=facts.earliest, skipped=facts.earliest, gap=lost)


def made_anew(topic: str, facts: PartitionFacts, known: PartitionState) -> Start:
    """Of a partition of a topic that is another one now."""
    gap = Gap(
        topic=topic,
        partition=known.partition,
        first=known.next_offset,
        end=-1,
        why=Why.RECREATED,
    )
    return Start(offset=facts.earliest, gap=gap)


def reading_on(topic: str, facts: PartitionFacts, known: PartitionState) -> Start:
    """Of a partition that has been read up to an offset."""

    def gap(first: int, end: int, why: Why, **more: Any) -> Gap:
        return Gap(topic=topic, partition=known.partition, first=first, end=end, why=why, **more)

    reached = known.next_offset
    if facts.epoch_end is not None and facts.epoch_end < reached:
        # Up to there the logs are the same; what stands behind it now has never been read.
        parts = facts.epoch_end
        return Start(offset=max(facts.earliest, parts), gap=gap(parts, reached, Why.TRUNCATED))
    if facts.parted is not None or facts.end < reached:
        return _parted(facts, reached, gap)
    if reached < facts.earliest:
        return Start(
            offset=facts.earliest,
            skipped=facts.earliest - reached,
            leader_epoch=known.leader_epoch,
            gap=gap(reached, facts.earliest, Why.RETENTION),
        )
    return Start(offset=reached, leader_epoch=known.leader_epoch, last=known.last)


def _parted(facts: PartitionFacts, reached: int, gap: Callable[..., Gap]) -> Start:
    """From where the logs are known to be the same no more. How much of what is behind that is the
    same nobody can say: all of it is read."""
    same_to = facts.earliest if facts.parted is None else facts.parted.same_to
    start = max(facts.earliest, same_to)
    lost = gap(
        min(facts.end, reached) if facts.parted is None else start,
        reached,
        Why.TRUNCATED,
        again=max(0, min(facts.end, reached) - start),
        was="" if facts.parted is None else facts.parted.was,
        found="" if facts.parted is None else facts.parted.found,
    )
    return Start(offset=start, gap=lost)
