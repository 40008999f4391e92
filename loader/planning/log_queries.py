"""Queries the cluster for a plan: where logs begin and end, and whether they are still the logs
that were read. Needs few requests, whatever the number of partitions.

A topic's id identifies the topic, but not the log: a broker whose directory was removed starts an
empty one under the same id. Leader epochs reveal this if the broker begins a new one with it.
Otherwise batches do: the last one that was read must still be there, at the same offsets, with the
same CRC. So one batch is fetched of each partition with new records; if it differs, earlier ones
are fetched until one is found that both logs have.

Compaction rewrites batches, so batches of compacted topics prove nothing.
"""

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from client.admin.topics import topic_configs
from client.connection.brokers import Brokers
from client.connection.metadata import TopicMetadata
from client.errors import Refused, Unsupported
from client.producing.delivery import TopicPartition
from client.reading.batches_at import batches_at
from client.reading.epochs import end_offsets_of_epochs
from client.reading.offsets import offsets_of
from loader.planning.facts import Divergence, PartitionFacts, TopicFacts, is_another
from loader.values.manifests import PartitionState, TopicState
from loader.values.reports import LastBatch
from wire.acls import Operation
from wire.messages.list_offsets import EARLIEST, LATEST
from wire.record_batches.batch import BatchHeader

Earlier = Callable[[str, int], Iterable[LastBatch]]  # of a partition, from earlier runs


def query_facts(
    brokers: Brokers, topics: Mapping[str, Iterable[PartitionState]]
) -> dict[str, TopicFacts]:
    """The facts about these topics, if they exist; partitions have been read up to these states.

    Raises a ClientError if a partition has no leader for longer than the brokers' patience.
    """
    states = {topic: tuple(partitions) for topic, partitions in topics.items()}
    topics_before = brokers.existing_topics(states, Operation.READ)
    while True:
        topic_facts = _facts(brokers, topics_before, states)
        # Answers have no ids. They are about these topics if none was recreated meanwhile.
        existing_again = brokers.existing_topics(states, Operation.READ)
        if _ids(existing_again) == _ids(topics_before):
            return topic_facts
        topics_before = existing_again


def _ids(topics: Mapping[str, TopicMetadata]) -> dict[str, object]:
    return {name: (topic.id, len(topic.partitions)) for name, topic in topics.items()}


def _facts(
    brokers: Brokers,
    existing: Mapping[str, TopicMetadata],
    states: Mapping[str, tuple[PartitionState, ...]],
) -> dict[str, TopicFacts]:
    targets = [
        TopicPartition(name, partition.index)
        for name, topic in existing.items()
        for partition in topic.partitions
    ]
    epochs = {
        TopicPartition(name, state.partition): state.leader_epoch
        for name, topic in existing.items()
        for state in states[name]
        if state.leader_epoch >= 0 and state.partition < len(topic.partitions)
    }
    epoch_ends = end_offsets_of_epochs(brokers, epochs)
    end_offsets = offsets_of(brokers, dict.fromkeys(targets, LATEST), committed=True)
    earliest = offsets_of(brokers, dict.fromkeys(targets, EARLIEST))

    def of_partition(target: TopicPartition, leader_epoch: int) -> PartitionFacts:
        epoch_end = epoch_ends.get(target, -1)
        return PartitionFacts(
            leader_epoch=leader_epoch,
            earliest=earliest[target],
            # Retention may have passed the end since that was queried.
            end=max(end_offsets[target], earliest[target]),
            epoch_end=None if epoch_end < 0 else epoch_end,
        )

    return {
        name: TopicFacts(
            topic=name,
            topic_id="" if topic.id is None else str(topic.id),
            partitions={
                partition.index: of_partition(
                    TopicPartition(name, partition.index), partition.leader_epoch
                )
                for partition in topic.partitions
            },
        )
        for name, topic in existing.items()
    }


def asked_offset(facts: PartitionFacts, state: PartitionState) -> int | None:
    """The offset whose batch shows whether the log is the one that was read. None if no batch can
    show it: epochs have already decided, nothing was read or is to be read, or the log now begins
    later."""
    if facts.epoch_end is not None and facts.epoch_end < state.next_offset:
        return None
    offset = (state.next_offset if state.last is None else state.last.next_offset) - 1
    return offset if facts.earliest <= offset < facts.end != state.next_offset else None


def is_same(state: PartitionState, header: BatchHeader) -> bool:
    """Whether the batch at that offset is the one that was read."""
    if state.last is not None:
        return is_batch(state.last, header)
    # Penstock 0.1 stored no batch, but it stopped at the end of one.
    return not header.base_offset < state.next_offset < header.next_offset


def is_batch(last: LastBatch, header: BatchHeader) -> bool:
    seen_batch = (header.base_offset, header.next_offset, header.crc)
    return seen_batch == (last.base_offset, last.next_offset, last.crc)


def candidates(facts: PartitionFacts, earlier: Iterable[LastBatch]) -> list[LastBatch]:
    """Batches that were read and may still be in the log, the newest first."""
    batches_by_end = {batch.next_offset: batch for batch in earlier}
    return [
        batches_by_end[end]
        for end in sorted(batches_by_end, reverse=True)
        if facts.earliest < end <= facts.end
    ]


def describe(header: BatchHeader | None) -> str:
    if header is None:
        return "the log ends before that"
    return str(
        LastBatch(
            base_offset=header.base_offset,
            next_offset=header.next_offset,
            crc=header.crc,
            max_timestamp=header.max_timestamp,
        )
    )


def with_divergences(
    brokers: Brokers,
    facts: Mapping[str, TopicFacts],
    state: Iterable[TopicState],
    earlier: Earlier,
) -> dict[str, TopicFacts]:
    """Returns the facts, with a note on each log that diverges from the one that was read."""
    states = {
        TopicPartition(topic.topic, partition.partition): partition
        for topic in state
        if (topic_facts := facts.get(topic.topic)) is not None
        and not is_another(topic_facts, topic)
        for partition in topic.partitions
        if partition.partition in topic_facts.partitions
    }
    divergences = _diverged(brokers, facts, states)
    if not divergences:
        return dict(facts)
    compacted_topics = {
        name: _is_compacted(brokers, name) for name in {target.topic for target in divergences}
    }
    located_batches = {
        target: _locate(brokers, target, _of(facts, target), divergence, earlier)
        for target, divergence in divergences.items()
        if not compacted_topics[target.topic]
    }
    return {
        name: replace(
            topic,
            partitions={
                index: replace(
                    partition, divergence=located_batches.get(TopicPartition(name, index))
                )
                for index, partition in topic.partitions.items()
            },
        )
        for name, topic in facts.items()
    }


def _diverged(
    brokers: Brokers,
    facts: Mapping[str, TopicFacts],
    states: Mapping[TopicPartition, PartitionState],
) -> dict[TopicPartition, Divergence]:
    """Logs that differ or are shorter, if epochs do not show up to where they are the same."""
    offsets = {
        target: offset
        for target, state in states.items()
        if (offset := asked_offset(_of(facts, target), state)) is not None
    }
    batches = batches_at(brokers, offsets) if offsets else {}
    divergences = {}
    for target, state in states.items():
        partition_facts = _of(facts, target)
        header = batches.get(target)
        is_cut = partition_facts.epoch_end is None or partition_facts.epoch_end >= state.next_offset
        if header is not None and not is_same(state, header):
            divergences[target] = _divergence(state, describe(header))
        elif is_cut and partition_facts.end < state.next_offset:
            divergences[target] = _divergence(state, describe(None))
    return divergences


def _divergence(state: PartitionState, found: str) -> Divergence:
    last_offset = state.next_offset - 1
    previous_batch = f"one that ends at {last_offset}" if state.last is None else str(state.last)
    return Divergence(same_to=-1, was=previous_batch, found=found)


def _locate(
    brokers: Brokers,
    target: TopicPartition,
    facts: PartitionFacts,
    divergence: Divergence,
    earlier: Earlier,
) -> Divergence:
    """Finds where the logs diverge: after the newest batch of an earlier run that still exists."""
    for batch in candidates(facts, earlier(target.topic, target.partition)):
        header = batches_at(brokers, {target: batch.next_offset - 1})[target]
        if header is not None and is_batch(batch, header):
            return replace(divergence, same_to=batch.next_offset)
    return divergence


def _is_compacted(brokers: Brokers, topic: str) -> bool:
    """Whether batches prove nothing, since the topic is compacted. False if brokers do not say."""
    try:
        configs = {config.name: config.value for config in topic_configs(brokers, topic)}
    except (Refused, Unsupported):
        return False
    return "compact" in (configs.get("cleanup.policy") or "")


def _of(facts: Mapping[str, TopicFacts], target: TopicPartition) -> PartitionFacts:
    return facts[target.topic].partitions[target.partition]
