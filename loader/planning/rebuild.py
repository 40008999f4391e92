"""Plans a rebuild of whole hours, which reads everything that was ever read and is still in the
log.

An hour's events may be anywhere in the log, and its files may have events that the log has lost
since. Replacing such files would lose these for good, so it is refused.
"""

from collections.abc import Mapping, Sequence

from client.producing.delivery import TopicPartition
from loader.planning.facts import TopicFacts, is_another
from loader.planning.plan import Gap, Plan, Why, refusal
from loader.planning.slicing import Range, divide
from loader.values.manifests import PartitionState, TopicState
from loader.values.tables import TableSource

_ACCEPT = "To rebuild the hours without them: --accept-gap"


def plan_rebuild(
    table: TableSource,
    facts: Mapping[str, TopicFacts],
    state: Sequence[TopicState],
    *,
    lowest: Mapping[TopicPartition, int],
    accept_gap: bool,
    records_per_task: int,
) -> Plan:
    """Plans a rebuild. `lowest` has the lowest offset in the files to replace, by partition.

    The state does not change. Raises GapError for rows that are no longer in the log.
    """
    topics = [topic for topic in state if topic.topic in {source.topic for source in table.topics}]
    gaps = [
        gap
        for topic in topics
        for partition in topic.partitions
        for gap in _lost(facts, topic, partition, lowest)
    ]
    if gaps and not accept_gap:
        raise refusal([_describe(gap) for gap in gaps], _ACCEPT)
    ranges = [range_ for topic in topics for range_ in _ranges(facts, topic)]
    return Plan(
        slices=divide(ranges, records_per_task),
        ranges=tuple(ranges),
        topics=tuple(state),
        gaps=tuple(gaps),
        absent=tuple(source.topic for source in table.topics if source.topic not in facts),
    )


def _describe(gap: Gap) -> str:
    name = f"{gap.topic}-{gap.partition}"
    return (
        f"{name}: files of these hours have rows from offset {gap.first} on, "
        f"but the log no longer has all of them ({gap.why})"
    )


def _lost(
    facts: Mapping[str, TopicFacts],
    topic: TopicState,
    state: PartitionState,
    lowest: Mapping[TopicPartition, int],
) -> list[Gap]:
    """The gap, if files have rows that are no longer in the log."""
    lowest_offset = lowest.get(TopicPartition(topic.topic, state.partition))
    if lowest_offset is None:
        return []

    def gap(end: int, why: Why) -> list[Gap]:
        return [
            Gap(topic=topic.topic, partition=state.partition, first=lowest_offset, end=end, why=why)
        ]

    topic_facts = facts.get(topic.topic)
    log = None if topic_facts is None else topic_facts.partitions.get(state.partition)
    if topic_facts is None or log is None:
        return gap(-1, Why.VANISHED)
    # An offset beyond what was read of this log belongs to another log.
    if is_another(topic_facts, topic) or lowest_offset >= state.next_offset:
        return gap(-1, Why.RECREATED)
    if lowest_offset < log.earliest:
        return gap(min(log.earliest, state.next_offset), Why.RETENTION)
    common_end = log.end if log.epoch_end is None else min(log.end, log.epoch_end)
    is_lost = log.divergence is not None or common_end < state.next_offset
    return gap(state.next_offset, Why.TRUNCATED) if is_lost else []


def _ranges(facts: Mapping[str, TopicFacts], topic: TopicState) -> list[Range]:
    topic_facts = facts.get(topic.topic)
    if topic_facts is None or is_another(topic_facts, topic):
        return []
    ranges = [
        Range(
            topic=topic.topic,
            topic_id=topic_facts.topic_id,
            cluster=topic.cluster,
            partition=state.partition,
            first=topic_facts.partitions[state.partition].earliest,
            end=min(state.next_offset, topic_facts.partitions[state.partition].end),
        )
        for state in topic.partitions
        if state.partition in topic_facts.partitions
    ]
    return [range_ for range_ in ranges if range_.offsets > 0]
