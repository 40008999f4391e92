"""Plans the offsets that a run reads for one table: from the end of the last run to the current
end.

Pure: the same facts and state give the same plan. Events that should be read next but are gone are
a gap: the run fails, or, if the gap is accepted, skips and records it. A recreated topic is never
continued at the old offset, nor is a log that diverges from the one that was read.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import replace

from loader.errors import GapError
from loader.planning.facts import PartitionFacts, TopicFacts, is_another
from loader.planning.slicing import Range, divide, share
from loader.values.manifests import PartitionState, TopicState
from loader.values.replaced_rows import PartitionRows
from loader.values.reports import LastBatch
from loader.values.tables import Slice, SourceTopic, TableSource

_ACCEPT = "To load the rest, and record the gap: --accept-gap"


class Why(StrEnum):
    RETENTION = "retention"  # deleted before it was loaded
    RECREATED = "recreated"  # the topic was deleted and created again
    TRUNCATED = "truncated"  # the log lost what was loaded from it, or has other batches there
    VANISHED = "vanished"  # the topic or partition does not exist


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Missing offsets, from `first` to before `end`, which is -1 if unknown.

    If the gap is accepted, `again` offsets that may have been read before are read once more. If
    batches showed that the log diverged, `was` describes the one that was read, and `found` what is
    there.
    """

    topic: str
    partition: int
    first: int
    end: int
    why: Why
    again: int = 0
    was: str = ""
    found: str = ""

    def __str__(self) -> str:
        name, last_offset = f"{self.topic}-{self.partition}", self.end - 1
        match self.why:
            case Why.RETENTION:
                return (
                    f"{name}: offsets {self.first} to {last_offset} were deleted before they "
                    "were read"
                )
            case Why.RECREATED:
                return (
                    f"{name}: the topic was deleted and created again; "
                    f"of the old one, offsets from {self.first} on were not loaded"
                )
            case Why.TRUNCATED:
                batch = f": the last batch that was read is {self.was}; in its place: {self.found}"
                reread_note = (
                    f"; it is unknown how much of the rest is the same: all {self.again:,} offsets "
                    "will be read again, which duplicates rows without a source and seq, or of a "
                    "forgotten source"
                )
                return (
                    f"{name}: offsets {self.first} to {last_offset} were loaded, but the log lost "
                    f"them since, or has other records there{batch if self.was else ''}"
                    f"{reread_note if self.again else ''}"
                )
            case Why.VANISHED:
                return f"{name} no longer exists; offsets from {self.first} on were not loaded"


def refusal(gaps: Sequence[object], remedy: str, total: str = "") -> GapError:
    """The error for these gaps."""
    return GapError(f"{in_one_line(gaps, total)}. {remedy}")


def in_one_line(gaps: Sequence[object], total: str = "") -> str:
    """Describes gaps, one or more. `total`: the size of several."""
    more_gaps = f" (and {len(gaps) - 1} more gaps{total})" if len(gaps) > 1 else ""
    return f"{gaps[0]}{more_gaps}"


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The offset to continue at, if the gap before it is accepted."""

    offset: int
    skipped: int = 0
    leader_epoch: int = -1  # of the last batch read before it
    last: LastBatch | None = None  # that batch
    gap: Gap | None = None


def at_the_beginning(facts: PartitionFacts) -> Start:
    """The first offset in a partition of a topic that was never read."""
    return Start(offset=facts.earliest)


def added(topic: str, partition: int, facts: PartitionFacts) -> Start:
    """The first offset in a partition that was added to a known topic; its log must be complete."""
    if not facts.earliest:
        return at_the_beginning(facts)
    gap = Gap(topic=topic, partition=partition, first=0, end=facts.earliest, why=Why.RETENTION)
    return Start(offset=facts.earliest, skipped=facts.earliest, gap=gap)


def recreated(topic: str, facts: PartitionFacts, state: PartitionState) -> Start:
    gap = Gap(
        topic=topic,
        partition=state.partition,
        first=state.next_offset,
        end=-1,
        why=Why.RECREATED,
    )
    return Start(offset=facts.earliest, gap=gap)


def continued(topic: str, facts: PartitionFacts, state: PartitionState) -> Start:

    def gap(first: int, end: int, why: Why, **fields: Any) -> Gap:
        return Gap(topic=topic, partition=state.partition, first=first, end=end, why=why, **fields)

    next_offset = state.next_offset
    if facts.epoch_end is not None and facts.epoch_end < next_offset:
        # The logs are the same up to there; what follows now was never read.
        parts = facts.epoch_end
        return Start(offset=max(facts.earliest, parts), gap=gap(parts, next_offset, Why.TRUNCATED))
    if facts.divergence is not None or facts.end < next_offset:
        return _diverged(facts, next_offset, gap)
    if next_offset < facts.earliest:
        return Start(
            offset=facts.earliest,
            skipped=facts.earliest - next_offset,
            leader_epoch=state.leader_epoch,
            gap=gap(next_offset, facts.earliest, Why.RETENTION),
        )
    return Start(offset=next_offset, leader_epoch=state.leader_epoch, last=state.last)


def _diverged(facts: PartitionFacts, reached: int, gap: Callable[..., Gap]) -> Start:
    """The start in a diverged log: where the known common part ends. It is unknown how much of the
    rest is the same, so all of it is read."""
    same_up_to = facts.earliest if facts.divergence is None else facts.divergence.same_to
    start = max(facts.earliest, same_up_to)
    gap_found = gap(
        min(facts.end, reached) if facts.divergence is None else start,
        reached,
        Why.TRUNCATED,
        again=max(0, min(facts.end, reached) - start),
        was="" if facts.divergence is None else facts.divergence.was,
        found="" if facts.divergence is None else facts.divergence.found,
    )
    return Start(offset=start, gap=gap_found)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The ranges that one run reads. `topics` is the state before the run, in which accepted gaps
    are skipped and the partitions to read have their start."""

    slices: tuple[Slice, ...]
    ranges: tuple[Range, ...]
    topics: tuple[TopicState, ...]
    gaps: tuple[Gap, ...] = ()  # accepted ones
    absent: tuple[str, ...] = ()  # topics that do not exist
    replaced: tuple[PartitionRows, ...] = ()  # of a rebuild: the rows in the files that go
    never_seen: Mapping[str, int] = {}  # by new topic: events lost before its first load

    @property
    def records(self) -> int:
        """An upper limit of the records to read."""
        return sum(range_.offsets for range_ in self.ranges)

    @property
    def nothing_to_do(self) -> bool:
        """Whether there is nothing to read; false also for new topics that have lost all their
        events, as the run's record may be the only trace of a former table."""
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
    """Plans a run. Raises GapError if events that should be read are gone, unless accepted."""
    states = {topic.topic: topic for topic in state}
    starts = {
        source.topic: starts_of(facts[source.topic], states.get(source.topic))
        for source in table.topics
        if source.topic in facts
    }
    gaps = [
        *(
            start.gap
            for topic_starts in starts.values()
            for start in topic_starts.values()
            if start.gap
        ),
        *(gap for source in table.topics for gap in vanished(facts, states.get(source.topic))),
    ]
    if gaps and not accept_gap:
        offsets = sum(gap.end - gap.first for gap in gaps if gap.end >= 0)
        raise refusal(gaps, _ACCEPT, f", {offsets:,} offsets in all" if offsets else "")
    ranges = [
        _range(source, facts[source.topic], partition, start)
        for source in table.topics
        for partition, start in starts.get(source.topic, {}).items()
    ]
    ranges = [read_range for read_range in _limited(ranges, max_records) if read_range.offsets]
    return Plan(
        slices=divide(ranges, records_per_task),
        ranges=tuple(ranges),
        topics=_before(table, facts, starts, state, ranges),
        gaps=tuple(gaps),
        absent=tuple(source.topic for source in table.topics if source.topic not in facts),
        never_seen={
            topic: lost_offsets
            for topic in starts
            if topic not in states
            and (lost_offsets := sum(log.earliest for log in facts[topic].partitions.values()))
        },
    )


def starts_of(facts: TopicFacts, known: TopicState | None) -> dict[int, Start]:
    """The start in each partition, with its gap."""
    states = {} if known is None else {state.partition: state for state in known.partitions}
    is_recreated = known is not None and is_another(facts, known)
    starts = {}
    for partition, log in sorted(facts.partitions.items()):
        state = states.get(partition)
        if known is None:
            starts[partition] = at_the_beginning(log)
        elif state is None or (is_recreated and state.absent):  # its absence was accepted before
            starts[partition] = added(facts.topic, partition, log)
        elif is_recreated:
            starts[partition] = recreated(facts.topic, log, state)
        else:
            starts[partition] = continued(facts.topic, log, state)
    return starts


def vanished(facts: Mapping[str, TopicFacts], known: TopicState | None) -> list[Gap]:
    """Gaps for partitions that were read and no longer exist, unless reported before."""
    if known is None:
        return []
    current_facts = facts.get(known.topic)
    reason = Why.RECREATED if current_facts and is_another(current_facts, known) else Why.VANISHED
    return [
        Gap(
            topic=known.topic,
            partition=state.partition,
            first=state.next_offset,
            end=-1,
            why=reason,
        )
        for state in known.partitions
        if not state.absent
        and (current_facts is None or state.partition not in current_facts.partitions)
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
    shares = share([range_.offsets for range_ in ranges], most)
    return [
        replace(range_, end=range_.first + size)
        for range_, size in zip(ranges, shares, strict=True)
    ]


def _before(
    table: TableSource,
    facts: Mapping[str, TopicFacts],
    starts: Mapping[str, Mapping[int, Start]],
    state: Sequence[TopicState],
    ranges: Sequence[Range],
) -> tuple[TopicState, ...]:
    """The state before the run. Partitions that brokers do not show keep their state, and are
    continued if they come back."""
    states = {topic.topic: topic for topic in state}
    partitions_read = {(range_.topic, range_.partition) for range_ in ranges}
    feeding_topics = {source.topic for source in table.topics}

    def started(source: SourceTopic) -> TopicState:
        current_facts, former_state = facts[source.topic], states.get(source.topic)
        partitions = (
            PartitionState(
                partition=partition,
                next_offset=start.offset,
                leader_epoch=start.leader_epoch,
                from_offset=start.offset if (source.topic, partition) in partitions_read else -1,
                skipped=start.skipped,
                last=start.last,
            )
            for partition, start in starts[source.topic].items()
        )
        # Partitions of a deleted topic never come back.
        absent_partitions = (
            ()
            if former_state is None or is_another(current_facts, former_state)
            else _absent(current_facts, former_state)
        )
        return TopicState(
            topic=source.topic,
            cluster=source.cluster,
            topic_id=current_facts.topic_id,
            partitions=(*partitions, *absent_partitions),
        )

    return (
        *(started(source) for source in table.topics if source.topic in facts),
        *(
            msgspec.structs.replace(former, partitions=_absent(None, former))
            for source in table.topics
            if source.topic not in facts and (former := states.get(source.topic)) is not None
        ),
        *(topic for topic in state if topic.topic not in feeding_topics),
    )


def _absent(current: TopicFacts | None, known: TopicState) -> tuple[PartitionState, ...]:
    return tuple(
        msgspec.structs.replace(state, from_offset=-1, skipped=0, absent=True)
        for state in known.partitions
        if current is None or state.partition not in current.partitions
    )
