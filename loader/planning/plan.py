"""What a run reads for one table: from where each partition was read to, up to where it ends now.

Pure: the same facts and the same state give the same plan. What should be read next and is not
there is a gap: a run fails for it, or, if it is accepted, passes over it and writes it down. A
topic that was made anew is never read on at the old offset, nor a log that parts from the one that
was read.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import replace

from loader.errors import GapError
from loader.manifests import PartitionState, TopicState
from loader.planning.facts import PartitionFacts, TopicFacts, is_another
from loader.planning.slicing import Range, divide, share
from loader.reports import LastBatch
from loader.tables import Slice, SourceTopic, TableSource

_ACCEPT = "To load what is there, and write the gap down: --accept-gap"


class Why(StrEnum):
    RETENTION = "retention"  # deleted before it was loaded
    RECREATED = "recreated"  # the topic of that name is another one now
    TRUNCATED = "truncated"  # the log has lost what was loaded from it, or holds something else
    VANISHED = "vanished"  # no such topic or partition


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets from `first` on, below `end`; `end` is -1 where nobody knows it. If it is
    accepted, `again` offsets that may have been read before are read once more. Where batches have
    told that the log is another one, `was` is the one that was read, and `found` what is there."""

    topic: str
    partition: int
    first: int
    end: int
    why: Why
    again: int = 0
    was: str = ""
    found: str = ""

    def __str__(self) -> str:
        name, last = f"{self.topic}-{self.partition}", self.end - 1
        match self.why:
            case Why.RETENTION:
                return f"{name}: offsets {self.first} to {last} were deleted before they were read"
            case Why.RECREATED:
                return (
                    f"{name}: the topic was deleted and made anew; "
                    f"of the old one, offsets from {self.first} on were not loaded"
                )
            case Why.TRUNCATED:
                parted = f": the last batch that was read is {self.was}; in its place: {self.found}"
                again = (
                    f"; how much of the rest is the same nobody can tell: all {self.again:,} "
                    "offsets that are there are to be read again, and rows without a source and "
                    "number, or of a source that is forgotten, will be there twice"
                )
                return (
                    f"{name}: offsets {self.first} to {last} were loaded, and the log has lost "
                    f"them since, or holds something else there{parted if self.was else ''}"
                    f"{again if self.again else ''}"
                )
            case Why.VANISHED:
                return (
                    f"{name} does not exist any more; offsets from {self.first} on were not loaded"
                )


def refusal(gaps: Sequence[object], remedy: str) -> GapError:
    """The error to raise: one line, whichever number of gaps there are."""
    more = f" (and {len(gaps) - 1} more gaps)" if len(gaps) > 1 else ""
    return GapError(f"{gaps[0]}{more}. {remedy}")


class Start(msgspec.Struct, frozen=True, kw_only=True):
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


def recreated(topic: str, facts: PartitionFacts, known: PartitionState) -> Start:
    """Of a partition of a topic that is another one now."""
    gap = Gap(
        topic=topic,
        partition=known.partition,
        first=known.next_offset,
        end=-1,
        why=Why.RECREATED,
    )
    return Start(offset=facts.earliest, gap=gap)


def continued(topic: str, facts: PartitionFacts, known: PartitionState) -> Start:
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


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One run's reading. `topics` is the state before it: what was accepted as missing is passed
    over there already, and every partition that is read says from where."""

    slices: tuple[Slice, ...]
    ranges: tuple[Range, ...]
    topics: tuple[TopicState, ...]
    gaps: tuple[Gap, ...] = ()  # that were accepted
    absent: tuple[str, ...] = ()  # topics that do not exist
    never_seen: Mapping[str, int] = {}  # what new topics had lost before

    @property
    def records(self) -> int:
        """At most so many."""
        return sum(each.offsets for each in self.ranges)

    @property
    def nothing_to_do(self) -> bool:
        """That a topic is new and has lost all that it had is written down: where a former table of
        it was lost, that is what tells that nothing is here any more."""
        return not self.slices and not self.gaps and not self.never_seen


def plan(
    table: TableSource,
    facts: Mapping[str, TopicFacts],
    state: Sequence[TopicState],
    *,
    accept_gap: bool,
    max_records: int | None,
    records_per_task: int,
) -> Plan:
    """Raises GapError for what should be read and is not there, unless that is accepted."""
    known = {each.topic: each for each in state}
    starts = {
        each.topic: starts_of(facts[each.topic], known.get(each.topic))
        for each in table.topics
        if each.topic in facts
    }
    gaps = [
        *(start.gap for each in starts.values() for start in each.values() if start.gap),
        *(gap for each in table.topics for gap in vanished(facts, known.get(each.topic))),
    ]
    if gaps and not accept_gap:
        raise refusal(gaps, _ACCEPT)
    ranges = [
        _range(each, facts[each.topic], partition, start)
        for each in table.topics
        for partition, start in starts.get(each.topic, {}).items()
    ]
    ranges = [each for each in _limited(ranges, max_records) if each.offsets]
    return Plan(
        slices=divide(ranges, records_per_task),
        ranges=tuple(ranges),
        topics=_before(table, facts, starts, state, ranges),
        gaps=tuple(gaps),
        absent=tuple(each.topic for each in table.topics if each.topic not in facts),
        never_seen={
            topic: lost
            for topic in starts
            if topic not in known
            and (lost := sum(each.earliest for each in facts[topic].partitions.values()))
        },
    )


def starts_of(facts: TopicFacts, known: TopicState | None) -> dict[int, Start]:
    """Where each partition is read on, and what is missing there."""
    before = {} if known is None else {each.partition: each for each in known.partitions}
    anew = known is not None and is_another(facts, known)
    starts = {}
    for partition, found in sorted(facts.partitions.items()):
        state = before.get(partition)
        if known is None:
            starts[partition] = at_the_beginning(found)
        elif state is None or (anew and state.absent):  # that it was gone was accepted already
            starts[partition] = added(facts.topic, partition, found)
        elif anew:
            starts[partition] = recreated(facts.topic, found, state)
        else:
            starts[partition] = continued(facts.topic, found, state)
    return starts


def vanished(facts: Mapping[str, TopicFacts], known: TopicState | None) -> list[Gap]:
    """Partitions that were read, and are not there any more; once."""
    if known is None:
        return []
    found = facts.get(known.topic)
    why = Why.RECREATED if found and is_another(found, known) else Why.VANISHED
    return [
        Gap(topic=known.topic, partition=each.partition, first=each.next_offset, end=-1, why=why)
        for each in known.partitions
        if not each.absent and (found is None or each.partition not in found.partitions)
    ]


def _range(source: SourceTopic, facts: TopicFacts, partition: int, start: Start) -> Range:
    return Range(
        topic=source.topic,
        topic_id=facts.topic_id,
        cluster=source.cluster,
        partition=partition,
        first=start.offset,
        end=facts.partitions[partition].end,
    )


def _limited(ranges: Sequence[Range], most: int | None) -> list[Range]:
    if most is None:
        return list(ranges)
    shares = share([each.offsets for each in ranges], most)
    return [
        replace(each, end=each.first + count) for each, count in zip(ranges, shares, strict=True)
    ]


def _before(
    table: TableSource,
    facts: Mapping[str, TopicFacts],
    starts: Mapping[str, Mapping[int, Start]],
    state: Sequence[TopicState],
    ranges: Sequence[Range],
) -> tuple[TopicState, ...]:
    """Whatever brokers do not show now keeps its state: it may be back, and is read on then."""
    known = {each.topic: each for each in state}
    read = {(each.topic, each.partition) for each in ranges}
    fed = {each.topic for each in table.topics}

    def started(source: SourceTopic) -> TopicState:
        found, before = facts[source.topic], known.get(source.topic)
        now = (
            PartitionState(
                partition=partition,
                next_offset=start.offset,
                leader_epoch=start.leader_epoch,
                from_offset=start.offset if (source.topic, partition) in read else -1,
                skipped=start.skipped,
                last=start.last,
            )
            for partition, start in starts[source.topic].items()
        )
        # Those of another topic of that name never come back.
        kept = () if before is None or is_another(found, before) else _absent(found, before)
        return TopicState(
            topic=source.topic,
            cluster=source.cluster,
            topic_id=found.topic_id,
            partitions=(*now, *kept),
        )

    return (
        *(started(each) for each in table.topics if each.topic in facts),
        *(
            msgspec.structs.replace(known[each.topic], partitions=_absent(None, known[each.topic]))
            for each in table.topics
            if each.topic not in facts and each.topic in known
        ),
        *(each for each in state if each.topic not in fed),
    )


def _absent(found: TopicFacts | None, known: TopicState) -> tuple[PartitionState, ...]:
    return tuple(
        msgspec.structs.replace(each, from_offset=-1, skipped=0, absent=True)
        for each in known.partitions
        if found is None or each.partition not in found.partitions
    )
