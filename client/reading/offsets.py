"""Start positions in a partition: the beginning, the end, an offset, or a time."""

from collections.abc import Collection, Mapping

import msgspec

from client.connection.brokers import Brokers
from client.errors import check
from client.producing.delivery import TopicPartition
from client.producing.leaders import by_leader
from client.reading.committed import READ_COMMITTED, READ_UNCOMMITTED
from client.rights import on_topic
from wire.acls import Operation
from wire.messages import list_offsets
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic


class Beginning(msgspec.Struct, frozen=True):
    pass


class End(msgspec.Struct, frozen=True):
    """A start at the end: reads messages written from now on."""


class AtOffset(msgspec.Struct, frozen=True):
    offset: int


class AtTime(msgspec.Struct, frozen=True):
    """A start at a time: the first message with this timestamp (in ms) or a later one; the end if
    there is none."""

    timestamp: int


Start = Beginning | End | AtOffset | AtTime


def start_offsets(
    brokers: Brokers, topic: str, partitions: Collection[int], start: Start
) -> dict[int, int]:
    """Returns the offset at which to begin, by partition."""
    match start:
        case AtOffset(offset):
            return dict.fromkeys(partitions, offset)
        case Beginning():
            return offsets_at(brokers, topic, partitions, list_offsets.EARLIEST)
        case End():
            return offsets_at(brokers, topic, partitions, list_offsets.LATEST)
        case AtTime(timestamp):
            offsets = offsets_at(brokers, topic, partitions, timestamp)
            unmatched_partitions = [
                partition for partition, offset in offsets.items() if offset < 0
            ]
            return offsets | offsets_at(brokers, topic, unmatched_partitions, list_offsets.LATEST)


def offsets_at(
    brokers: Brokers, topic: str, partitions: Collection[int], timestamp: int
) -> dict[int, int]:
    """Returns the offsets for a timestamp, or for a special value such as the end; -1 if no record
    matches."""
    targets = [TopicPartition(topic, partition) for partition in partitions]
    offsets = offsets_of(brokers, dict.fromkeys(targets, timestamp))
    return {target.partition: offset for target, offset in offsets.items()}


def offsets_of(
    brokers: Brokers, times: Mapping[TopicPartition, int], *, committed: bool = False
) -> dict[TopicPartition, int]:
    """Returns offsets for partitions of many topics, with one request to each leader.

    With `committed` the end is the last stable offset, before all open transactions.
    """
    offsets: dict[TopicPartition, int] = {}

    def attempt() -> dict[TopicPartition, int]:
        missing_targets = times.keys() - offsets.keys()
        for leader, led_partitions in by_leader(
            brokers, sorted(missing_targets), Operation.DESCRIBE
        ).items():
            request = ListOffsetsRequest(
                isolation_level=READ_COMMITTED if committed else READ_UNCOMMITTED,
                topics=tuple(
                    _wanted(topic, led_partitions[topic], times) for topic in led_partitions
                ),
            )
            response = brokers.broker(leader).call(list_offsets.API, request)
            for topic in response.topics:
                for partition in topic.partitions:
                    target = TopicPartition(topic.name, partition.partition_index)
                    needs = on_topic(brokers.who, topic.name, Operation.DESCRIBE)
                    check(partition.error_code, str(target), needs=needs)
                    offsets[target] = partition.offset
        return offsets

    return brokers.persist(attempt)


def _wanted(
    topic: str, partitions: list[int], times: Mapping[TopicPartition, int]
) -> ListOffsetsTopic:
    return ListOffsetsTopic(
        name=topic,
        partitions=tuple(
            ListOffsetsPartition(
                partition_index=partition, timestamp=times[TopicPartition(topic, partition)]
            )
            for partition in partitions
        ),
    )
