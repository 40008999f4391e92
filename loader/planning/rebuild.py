"""Plans a rebuild of whole hours, which reads everything that was ever read and is still in the
log.

An hour's events may be anywhere in the log, and its files may have events that the log has lost
since. Replacing such files would remove rows that exist nowhere else: the rebuild ends with an
error that has their number, unless the request allows for as many
(docs/decisions/0182-a-rebuild-names-the-rows-that-it-removes.md).
"""

from collections.abc import Mapping, Sequence

from client.producing.delivery import TopicPartition
from loader.errors import RowsLost
from loader.planning.facts import PartitionFacts, TopicFacts, is_another
from loader.planning.plan import Gap, Plan, Why, in_one_line, refusal
from loader.planning.slicing import Range, divide
from loader.values.manifests import PartitionState, TopicState
from loader.values.replaced_rows import PartitionRows, Readable
from loader.values.tables import TableSource

_ACCEPT = "To rebuild the hours without them: --accept-gap"
_OTHER_TOPICS = "files of these hours have rows of topics that no longer feed the table"


def readable_offsets(facts: Mapping[str, TopicFacts], state: Sequence[TopicState]) -> Readable:
    """The offsets at which the log still has what loads have read there."""
    return {
        TopicPartition(topic.topic, partition.partition): (
            log.earliest,
            min(_common_end(log), partition.next_offset),
        )
        for topic in state
        if (topic_facts := facts.get(topic.topic)) and not is_another(topic_facts, topic)
        for partition in topic.partitions
        if (log := topic_facts.partitions.get(partition.partition))
    }


def _common_end(log: PartitionFacts) -> int:
    """The end of what this log and the one that was read have in common."""
    ends = [log.end, log.end if log.epoch_end is None else log.epoch_end]
    return min(ends if log.divergence is None else (*ends, log.divergence.same_to))


def plan_rebuild(
    table: TableSource,
    facts: Mapping[str, TopicFacts],
    state: Sequence[TopicState],
    *,
    replaced: Sequence[PartitionRows],
    accept_gap: bool,
    remove_rows: int,
    records_per_task: int,
) -> Plan:
    """Plans a rebuild. `replaced` are the rows of the files to replace.

    The state does not change. Raises RowsLost if it would remove more rows than `remove_rows` that
    the log no longer has, and GapError if the log has lost other events.
    """
    lowest: dict[TopicPartition, int] = {}
    for part in replaced:
        lowest[part.partition] = min(part.lowest, lowest.get(part.partition, part.lowest))
    topics = [topic for topic in state if topic.topic in {source.topic for source in table.topics}]
    gaps = [
        gap
        for topic in topics
        for partition in topic.partitions
        for gap in _lost(facts, topic, partition, lowest)
    ]
    descriptions = [_describe(gap) for gap in gaps]
    reason = in_one_line(descriptions or [_OTHER_TOPICS])
    check_removed(sum(part.gone for part in replaced), remove_rows, reason)
    if gaps and not accept_gap:
        raise refusal(descriptions, _ACCEPT)
    ranges = [range_ for topic in topics for range_ in _ranges(facts, topic)]
    return Plan(
        slices=divide(ranges, records_per_task),
        ranges=tuple(ranges),
        topics=tuple(state),
        gaps=tuple(gaps),
        replaced=tuple(replaced),
        absent=tuple(source.topic for source in table.topics if source.topic not in facts),
    )


def check_removed(rows: int, allowed: int, reason: str) -> None:
    """Checks the number of rows that a rebuild would remove. Raises RowsLost."""
    if rows > allowed:
        raise RowsLost(
            f"{reason}; a rebuild would remove {rows:,} rows that the brokers no longer have;"
            " nothing was replaced",
            rows,
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
    is_lost = log.divergence is not None or _common_end(log) < state.next_offset
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
