"""Where reading goes on in a partition, and what is missing there."""

from dataclasses import dataclass

from loader.manifests import PartitionState
from loader.planning.facts import PartitionFacts
from loader.planning.gaps import Gap, Why


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The offset to read on at, if the gap before it is accepted."""

    offset: int
    within: bool = False  # it may lie within a batch, as nothing was read before it
    skipped: int = 0
    leader_epoch: int = -1  # of the last batch before it that was read
    gap: Gap | None = None


def at_the_beginning(facts: PartitionFacts) -> Start:
    """Of a partition of a topic of which nothing has been read yet."""
    return Start(offset=facts.earliest, within=facts.earliest > 0)


def added(topic: str, partition: int, facts: PartitionFacts) -> Start:
    """Of a partition that is new, of a topic that is not: nothing of it may be missing."""
    if not facts.earliest:
        return at_the_beginning(facts)
    lost = Gap(topic=topic, partition=partition, first=0, end=facts.earliest, why=Why.RETENTION)
    return Start(offset=facts.earliest, within=True, skipped=facts.earliest, gap=lost)


def made_anew(topic: str, facts: PartitionFacts, known: PartitionState) -> Start:
    """Of a partition of a topic that is another one now."""
    gap = Gap(
        topic=topic,
        partition=known.partition,
        first=known.next_offset,
        end=-1,
        why=Why.RECREATED,
    )
    return Start(offset=facts.earliest, within=facts.earliest > 0, gap=gap)


def reading_on(topic: str, facts: PartitionFacts, known: PartitionState) -> Start:
    """Of a partition that has been read up to an offset."""

    def gap(first: int, end: int, why: Why, *, again: int = 0) -> Gap:
        return Gap(
            topic=topic, partition=known.partition, first=first, end=end, why=why, again=again
        )

    reached = known.next_offset
    if facts.epoch_end is not None and facts.epoch_end < reached:
        # Up to there the logs are the same; what stands behind it now has never been read.
        parted = facts.epoch_end
        return Start(
            offset=max(facts.earliest, parted),
            within=facts.earliest > parted,
            gap=gap(parted, reached, Why.TRUNCATED),
        )
    if facts.end < reached:
        # Nobody can say how much of it is the same: all of it is read.
        return Start(
            offset=facts.earliest,
            within=facts.earliest > 0,
            gap=gap(facts.end, reached, Why.TRUNCATED, again=facts.end - facts.earliest),
        )
    if reached < facts.earliest:
        return Start(
            offset=facts.earliest,
            within=True,
            skipped=facts.earliest - reached,
            leader_epoch=known.leader_epoch,
            gap=gap(reached, facts.earliest, Why.RETENTION),
        )
    return Start(offset=reached, leader_epoch=known.leader_epoch)
