"""What a run reads for one table: from where each partition was read to, up to where it ends now.

Pure: the same facts and the same state give the same plan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from loader.manifests import PartitionState, TopicState
from loader.planning.facts import TopicFacts
from loader.planning.gaps import Gap, Why, refusal
from loader.planning.same_log import is_another
from loader.planning.slicing import Range, divide, share
from loader.planning.starting import Start, added, at_the_beginning, made_anew, reading_on
from loader.tables import Slice, SourceTopic, TableSource

_ACCEPT = "To load what is there, and write the gap down: --accept-gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run's reading. `topics` is the state before it: what was accepted as missing is passed
    over there already, and every partition that is read says from where."""

    slices: tuple[Slice, ...]
    ranges: tuple[Range, ...]
    topics: tuple[TopicState, ...]
    gaps: tuple[Gap, ...] = ()  # that were accepted
    absent: tuple[str, ...] = ()  # topics that do not exist
    never_seen: Mapping[str, int] = field(default_factory=dict)  # what new topics had lost before

    @property
    def records(self) -> int:
        """At most so many."""
        return sum(each.offsets for each in self.ranges)

    @property
    def skipped(self) -> int:
        """Offsets given up."""
        return sum(each.skipped for topic in self.topics for each in topic.partitions)

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
            starts[partition] = made_anew(facts.topic, found, state)
        else:
            starts[partition] = reading_on(facts.topic, found, state)
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
