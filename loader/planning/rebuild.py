"""What a rebuild of whole hours reads: everything that was ever read and is there still.

An hour's events may lie anywhere in the log, and files of it may hold what the log has lost since:
then replacing them would lose it for good, and that is refused.
"""

from collections.abc import Mapping, Sequence

from client.delivery import TopicPartition
from loader.manifests import PartitionState, TopicState
from loader.planning.facts import TopicFacts, is_another
from loader.planning.plan import Gap, Plan, Why, refusal
from loader.planning.slicing import Range, divide
from loader.tables import TableSource

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
    """`lowest` is, by partition, the lowest offset of any row in the files that are replaced.

    The state stays as it is. Raises GapError for rows that the log does not hold any more.
    """
    known = [each for each in state if each.topic in {source.topic for source in table.topics}]
    gaps = [
        gap
        for topic in known
        for each in topic.partitions
        for gap in _lost(facts, topic, each, lowest)
    ]
    if gaps and not accept_gap:
        raise refusal([_said(each) for each in gaps], _ACCEPT)
    ranges = [each for topic in known for each in _ranges(facts, topic)]
    return Plan(
        slices=divide(ranges, records_per_task),
        ranges=tuple(ranges),
        topics=tuple(state),
        gaps=tuple(gaps),
        absent=tuple(each.topic for each in table.topics if each.topic not in facts),
    )


def _said(gap: Gap) -> str:
    name = f"{gap.topic}-{gap.partition}"
    return (
        f"{name}: files of these hours hold rows from offset {gap.first} on, "
        f"and the log does not hold them all any more ({gap.why})"
    )


def _lost(
    facts: Mapping[str, TopicFacts],
    topic: TopicState,
    known: PartitionState,
    lowest: Mapping[TopicPartition, int],
) -> list[Gap]:
    """Of rows that files hold: whether the log has them no longer."""
    began = lowest.get(TopicPartition(topic.topic, known.partition))
    if began is None:
        return []

    def gap(end: int, why: Why) -> list[Gap]:
        return [Gap(topic=topic.topic, partition=known.partition, first=began, end=end, why=why)]

    found = facts.get(topic.topic)
    there = None if found is None else found.partitions.get(known.partition)
    if found is None or there is None:
        return gap(-1, Why.VANISHED)
    # An offset that this log was never read up to is one of another log.
    if is_another(found, topic) or began >= known.next_offset:
        return gap(-1, Why.RECREATED)
    if began < there.earliest:
        return gap(min(there.earliest, known.next_offset), Why.RETENTION)
    parts = there.end if there.epoch_end is None else min(there.end, there.epoch_end)
    lost = there.parted is not None or parts < known.next_offset
    return gap(known.next_offset, Why.TRUNCATED) if lost else []


def _ranges(facts: Mapping[str, TopicFacts], topic: TopicState) -> list[Range]:
    found = facts.get(topic.topic)
    if found is None or is_another(found, topic):
        return []
    ranges = [
        Range(
            topic=topic.topic,
            topic_id=found.topic_id,
            cluster=topic.cluster,
            partition=each.partition,
            first=found.partitions[each.partition].earliest,
            end=min(each.next_offset, found.partitions[each.partition].end),
        )
        for each in topic.partitions
        if each.partition in found.partitions
    ]
    return [each for each in ranges if each.offsets > 0]
