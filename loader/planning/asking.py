"""The questions to the cluster: few requests, whichever number of partitions there are."""

from collections.abc import Iterable, Mapping

from client.brokers import Brokers
from client.delivery import TopicPartition
from client.epochs import end_offsets_of_epochs
from client.metadata import Topic
from client.offsets import offsets_of
from loader.manifests import PartitionState
from loader.planning.facts import PartitionFacts, TopicFacts
from wire.messages.list_offsets import EARLIEST, LATEST


def ask(brokers: Brokers, topics: Mapping[str, Iterable[PartitionState]]) -> dict[str, TopicFacts]:
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


def _existing(brokers: Brokers, names: Iterable[str]) -> dict[str, Topic]:
    wanted = list(names)
    if not wanted:
        return {}

    def attempt() -> dict[str, Topic]:
        known = brokers.refresh(wanted)
        return {name: known.topic(name) for name in wanted if known.has(name)}

    return brokers.persist(attempt)


def _ids(topics: Mapping[str, Topic]) -> dict[str, object]:
    return {name: (topic.id, len(topic.partitions)) for name, topic in topics.items()}


def _facts(
    brokers: Brokers,
    there: Mapping[str, Topic],
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
