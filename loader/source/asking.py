"""What the source asks the cluster: which topics, where they begin and end, where a time is.

Few requests, whichever number of partitions there are.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from client.admin import all_topics
from client.brokers import Brokers
from client.delivery import TopicPartition
from client.errors import UnknownTopic
from client.offsets import offsets_of
from client.partition_reader import PartitionReader
from loader.manifests import PartitionState
from loader.planning.asking import ask
from loader.planning.choosing import matching
from loader.planning.facts import TopicFacts
from loader.planning.slicing import Range
from loader.source.options import AtTime, Position, SourceOptions

_SAMPLE_BYTES = 64 * 1024


def topics_of(brokers: Brokers, options: SourceOptions) -> tuple[str, ...]:
    """Those that are named, or those that the pattern matches now."""
    if options.pattern is None:
        return options.topics
    return tuple(matching(all_topics(brokers).topics, [options.pattern], ()))


def facts_of(brokers: Brokers, topics: Iterable[str]) -> dict[str, TopicFacts]:
    """Of topics that must exist."""
    wanted = list(topics)
    facts = ask(brokers, dict.fromkeys(wanted, ()))
    for topic in wanted:
        if topic not in facts:
            raise UnknownTopic(topic)
    return facts


def facts_and_epochs(
    brokers: Brokers, topics: Mapping[str, Iterable[PartitionState]]
) -> dict[str, TopicFacts]:
    """Of those topics that exist. The leaders' epochs are asked for last: what lies before the
    ends that were found was written in these epochs, or earlier ones."""
    facts = ask(brokers, topics)
    if not facts:
        return facts
    known = brokers.persist(lambda: brokers.refresh(list(facts)))
    for name, found in facts.items():
        if not known.has(name):
            continue
        epochs = {each.index: each.leader_epoch for each in known.topic(name).partitions}
        partitions = {
            index: replace(each, leader_epoch=epochs.get(index, each.leader_epoch))
            for index, each in found.partitions.items()
        }
        facts[name] = replace(found, partitions=partitions)
    return facts


def times_of(
    brokers: Brokers, facts: Mapping[str, TopicFacts], where: Position | None
) -> dict[TopicPartition, int]:
    """The offset of a time in each partition, -1 where nothing is as late."""
    if not isinstance(where, AtTime):
        return {}
    targets = [TopicPartition(topic, index) for topic in facts for index in facts[topic].partitions]
    return offsets_of(brokers, dict.fromkeys(targets, where.millis), committed=True)


def bytes_per_offset(brokers: Brokers, ranges: Sequence[Range]) -> list[float]:
    """By the batch in the middle of each range, as it is stored; 0 if nothing is there."""
    return [_sampled(brokers, each) for each in ranges]


def _sampled(brokers: Brokers, range_: Range) -> float:
    middle = (range_.first + range_.end) // 2
    reader = PartitionReader(
        brokers,
        range_.topic,
        range_.partition,
        middle,
        middle + 1,
        topic_id=range_.topic_id,
        fetch_bytes=_SAMPLE_BYTES,
        from_within=True,
    )
    headers = [batch.header for batch in reader]
    offsets = sum(each.next_offset - each.base_offset for each in headers)
    return sum(each.size for each in headers) / offsets if offsets else 0.0
