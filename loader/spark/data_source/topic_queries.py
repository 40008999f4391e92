"""Queries the cluster for the source: topics, their beginnings and ends, and the offsets of times.
Needs few requests, whatever the number of partitions.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from client.admin.topics import all_topics
from client.connection.brokers import Brokers
from client.errors import UnknownTopic
from client.producing.delivery import TopicPartition
from client.reading.offsets import offsets_of
from client.reading.partition_reader import PartitionReader
from loader.planning.facts import TopicFacts
from loader.planning.log_queries import query_facts
from loader.planning.slicing import Range
from loader.planning.table_selection import matching
from loader.spark.data_source.options import AtTime, Position, SourceOptions
from loader.values.manifests import PartitionState

_SAMPLE_BYTES = 64 * 1024


def topics_of(brokers: Brokers, options: SourceOptions) -> tuple[str, ...]:
    """The topics with these names, or those that the pattern matches now."""
    if options.pattern is None:
        return options.topics
    return tuple(matching(all_topics(brokers).topics, [options.pattern], ()))


def facts_of(brokers: Brokers, topics: Iterable[str]) -> dict[str, TopicFacts]:
    """The facts about topics that must exist."""
    names = list(topics)
    facts = query_facts(brokers, dict.fromkeys(names, ()))
    for topic in names:
        if topic not in facts:
            raise UnknownTopic(topic)
    return facts


def facts_and_epochs(
    brokers: Brokers, topics: Mapping[str, Iterable[PartitionState]]
) -> dict[str, TopicFacts]:
    """The facts about those topics that exist. Leader epochs are queried last: all records below
    the ends were written in these epochs or earlier."""
    facts = query_facts(brokers, topics)
    if not facts:
        return facts
    metadata = brokers.persist(lambda: brokers.refresh(list(facts)))
    for name, topic_facts in facts.items():
        if not metadata.has(name):
            continue
        epochs = {log.index: log.leader_epoch for log in metadata.topic(name).partitions}
        partitions = {
            index: replace(log, leader_epoch=epochs.get(index, log.leader_epoch))
            for index, log in topic_facts.partitions.items()
        }
        facts[name] = replace(topic_facts, partitions=partitions)
    return facts


def times_of(
    brokers: Brokers, facts: Mapping[str, TopicFacts], where: Position | None
) -> dict[TopicPartition, int]:
    """The offset of a time in each partition, -1 if no record is that late."""
    if not isinstance(where, AtTime):
        return {}
    targets = [TopicPartition(topic, index) for topic in facts for index in facts[topic].partitions]
    return offsets_of(brokers, dict.fromkeys(targets, where.millis), committed=True)


def bytes_per_offset(brokers: Brokers, ranges: Sequence[Range]) -> list[float]:
    """Estimates the bytes per offset from the stored batch in the middle of each range; 0 if there
    is none."""
    return [_sampled(brokers, range_) for range_ in ranges]


def _sampled(brokers: Brokers, range_: Range) -> float:
    middle_offset = (range_.first + range_.end) // 2
    reader = PartitionReader(
        brokers,
        range_.topic,
        range_.partition,
        middle_offset,
        middle_offset + 1,
        topic_id=range_.topic_id,
        fetch_bytes=_SAMPLE_BYTES,
        from_within=True,
    )
    headers = [batch.header for batch in reader]
    offsets = sum(header.next_offset - header.base_offset for header in headers)
    return sum(header.size for header in headers) / offsets if offsets else 0.0
