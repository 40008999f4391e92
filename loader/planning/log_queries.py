"""The questions to the cluster when a run is planned: where logs begin and end, and whether they
are those that were read. Few requests, whichever number of partitions there are.

A topic's id says which topic it is, and not which log: a broker whose directory was removed begins
an empty one under the same id. Leader epochs tell, where the broker begins a new one with it. Where
they do not, batches do: the last one that was read must be there still, at the same offsets, with
the same CRC. So one batch is asked for of each partition in which something is new, and of one that
is another log, as many of earlier runs as it takes to find where they part.

Compaction writes batches anew. Of topics that are compacted nothing can be told by batches.
"""

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from client.admin import topic_configs
from client.batches_at import batches_at
from client.brokers import Brokers
from client.delivery import TopicPartition
from client.epochs import end_offsets_of_epochs
from client.errors import Refused, Unsupported
from client.metadata import TopicMetadata
from client.offsets import offsets_of
from loader.manifests import PartitionState, TopicState
from loader.planning.facts import Divergence, PartitionFacts, TopicFacts, is_another
from loader.reports import LastBatch
from wire.acls import Operation
from wire.batch import BatchHeader
from wire.messages.list_offsets import EARLIEST, LATEST

Earlier = Callable[[str, int], Iterable[LastBatch]]  # of a partition, from runs before


def query_facts(
    brokers: Brokers, topics: Mapping[str, Iterable[PartitionState]]
) -> dict[str, TopicFacts]:
    """The facts of these topics, those that exist, where so much of each has been read before.

    Raises a ClientError if a partition has no leader for longer than the brokers' patience.
    """
    known = {topic: tuple(partitions) for topic, partitions in topics.items()}
    there = _existing(brokers, known)
    while True:
        found = _facts(brokers, there, known)
        # The answers say nothing of ids. If no topic was made anew meanwhile, they are of these.
        again = _existing(brokers, known)
        if _ids(again) == _ids(there):
            return found
        there = again


def _existing(brokers: Brokers, names: Iterable[str]) -> dict[str, TopicMetadata]:
    wanted = list(names)
    if not wanted:
        return {}

    def attempt() -> dict[str, TopicMetadata]:
        known = brokers.refresh(wanted)
        return {name: known.topic(name, Operation.READ) for name in wanted if known.has(name)}

    return brokers.persist(attempt)


def _ids(topics: Mapping[str, TopicMetadata]) -> dict[str, object]:
    return {name: (topic.id, len(topic.partitions)) for name, topic in topics.items()}


def _facts(
    brokers: Brokers,
    there: Mapping[str, TopicMetadata],
    known: Mapping[str, tuple[PartitionState, ...]],
) -> dict[str, TopicFacts]:
    targets = [
        TopicPartition(name, partition.index)
        for name, topic in there.items()
        for partition in topic.partitions
    ]
    epochs = {
        TopicPartition(name, state.partition): state.leader_epoch
        for name, topic in there.items()
        for state in known[name]
        if state.leader_epoch >= 0 and state.partition < len(topic.partitions)
    }
    epoch_ends = end_offsets_of_epochs(brokers, epochs)
    ends = offsets_of(brokers, dict.fromkeys(targets, LATEST), committed=True)
    earliest = offsets_of(brokers, dict.fromkeys(targets, EARLIEST))

    def of_partition(target: TopicPartition, leader_epoch: int) -> PartitionFacts:
        epoch_end = epoch_ends.get(target, -1)
        return PartitionFacts(
            leader_epoch=leader_epoch,
            earliest=earliest[target],
            # Retention may have passed the end as it was asked for.
            end=max(ends[target], earliest[target]),
            epoch_end=None if epoch_end < 0 else epoch_end,
        )

    return {
        name: TopicFacts(
            topic=name,
            topic_id="" if topic.id is None else str(topic.id),
            partitions={
                each.index: of_partition(TopicPartition(name, each.index), each.leader_epoch)
                for each in topic.partitions
            },
        )
        for name, topic in there.items()
    }


def asked_offset(facts: PartitionFacts, known: PartitionState) -> int | None:
    """Whose batch tells whether the log is the one that was read. None if none does: epochs have
    told already, nothing was read or is to be, or the log begins behind it now."""
    if facts.epoch_end is not None and facts.epoch_end < known.next_offset:
        return None
    offset = (known.next_offset if known.last is None else known.last.next_offset) - 1
    return offset if facts.earliest <= offset < facts.end != known.next_offset else None


def is_same(known: PartitionState, found: BatchHeader) -> bool:
    """Whether the batch at that offset is the one that was read."""
    if known.last is not None:
        return is_batch(known.last, found)
    # Penstock 0.1 kept nothing of it. But what it read ended where a batch did.
    return not found.base_offset < known.next_offset < found.next_offset


def is_batch(known: LastBatch, found: BatchHeader) -> bool:
    seen = (found.base_offset, found.next_offset, found.crc)
    return seen == (known.base_offset, known.next_offset, known.crc)


def candidates(facts: PartitionFacts, earlier: Iterable[LastBatch]) -> list[LastBatch]:
    """Those that may be there still, the newest first."""
    known = {each.next_offset: each for each in earlier}
    return [known[end] for end in sorted(known, reverse=True) if facts.earliest < end <= facts.end]


def described(found: BatchHeader | None) -> str:
    """What is there now, in words."""
    if found is None:
        return "the log ends before that"
    return str(
        LastBatch(
            base_offset=found.base_offset,
            next_offset=found.next_offset,
            crc=found.crc,
            max_timestamp=found.max_timestamp,
        )
    )


def with_divergences(
    brokers: Brokers,
    facts: Mapping[str, TopicFacts],
    state: Iterable[TopicState],
    earlier: Earlier,
) -> dict[str, TopicFacts]:
    """The same facts, with which logs are not those that were read."""
    known = {
        TopicPartition(topic.topic, each.partition): each
        for topic in state
        if (there := facts.get(topic.topic)) is not None and not is_another(there, topic)
        for each in topic.partitions
        if each.partition in there.partitions
    }
    parted = _parted(brokers, facts, known)
    if not parted:
        return dict(facts)
    compacted = {name: _is_compacted(brokers, name) for name in {each.topic for each in parted}}
    located = {
        target: _located(brokers, target, _of(facts, target), each, earlier)
        for target, each in parted.items()
        if not compacted[target.topic]
    }
    return {
        name: replace(
            topic,
            partitions={
                index: replace(each, parted=located.get(TopicPartition(name, index)))
                for index, each in topic.partitions.items()
            },
        )
        for name, topic in facts.items()
    }


def _parted(
    brokers: Brokers,
    facts: Mapping[str, TopicFacts],
    known: Mapping[TopicPartition, PartitionState],
) -> dict[TopicPartition, Divergence]:
    """Logs that are others, or shorter than they were, and epochs do not say how far the same."""
    asked = {
        target: offset
        for target, state in known.items()
        if (offset := asked_offset(_of(facts, target), state)) is not None
    }
    batches = batches_at(brokers, asked) if asked else {}
    parted = {}
    for target, state in known.items():
        there = _of(facts, target)
        header = batches.get(target)
        cut = there.epoch_end is None or there.epoch_end >= state.next_offset
        if header is not None and not is_same(state, header):
            parted[target] = _apart(state, described(header))
        elif cut and there.end < state.next_offset:
            parted[target] = _apart(state, described(None))
    return parted


def _apart(state: PartitionState, found: str) -> Divergence:
    last = state.next_offset - 1
    was = f"one that ends at {last}" if state.last is None else str(state.last)
    return Divergence(same_to=-1, was=was, found=found)


def _located(
    brokers: Brokers,
    target: TopicPartition,
    facts: PartitionFacts,
    parted: Divergence,
    earlier: Earlier,
) -> Divergence:
    """With how far the logs are the same: to the newest batch of an earlier run that is there."""
    for each in candidates(facts, earlier(target.topic, target.partition)):
        header = batches_at(brokers, {target: each.next_offset - 1})[target]
        if header is not None and is_batch(each, header):
            return replace(parted, same_to=each.next_offset)
    return parted


def _is_compacted(brokers: Brokers, topic: str) -> bool:
    """Nothing can be told of what is. Where brokers do not say, it is not."""
    try:
        configs = {each.name: each.value for each in topic_configs(brokers, topic)}
    except (Refused, Unsupported):
        return False
    return "compact" in (configs.get("cleanup.policy") or "")


def _of(facts: Mapping[str, TopicFacts], target: TopicPartition) -> PartitionFacts:
    return facts[target.topic].partitions[target.partition]
