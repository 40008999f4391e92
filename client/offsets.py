"""Where to begin in a partition: at its beginning, its end, an offset, or a time."""

from collections.abc import Collection, Mapping

import msgspec

from client.brokers import Brokers
from client.committed import READ_COMMITTED, READ_UNCOMMITTED
from client.delivery import TopicPartition
from client.errors import check
from client.leaders import by_leader
from client.rights import on_topic
from wire.acls import Operation
from wire.messages import list_offsets
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic


class Beginning(msgspec.Struct, frozen=True):
    pass


class End(msgspec.Struct, frozen=True):
    """What is written from now on."""


class AtOffset(msgspec.Struct, frozen=True):
    offset: int


class AtTime(msgspec.Struct, frozen=True):
    """The first message of this time or later, in milliseconds; the end if there is none."""

    timestamp: int


Start = Beginning | End | AtOffset | AtTime


def start_offsets(
    brokers: Brokers, topic: str, partitions: Collection[int], start: Start
) -> dict[int, int]:
    """The offset at which to begin, by partition."""
    match start:
        case AtOffset(offset):
            return dict.fromkeys(partitions, offset)
        case Beginning():
            return offsets_at(brokers, topic, partitions, list_offsets.EARLIEST)
        case End():
            return offsets_at(brokers, topic, partitions, list_offsets.LATEST)
        case AtTime(timestamp):
            found = offsets_at(brokers, topic, partitions, timestamp)
            without = [partition for partition, offset in found.items() if offset < 0]
            return found | offsets_at(brokers, topic, without, list_offsets.LATEST)


def offsets_at(
    brokers: Brokers, topic: str, partitions: Collection[int], timestamp: int
) -> dict[int, int]:
    """Kafka's answer for a timestamp, which may be one of the special ones; -1 where none fits."""
    targets = [TopicPartition(topic, partition) for partition in partitions]
    found = offsets_of(brokers, dict.fromkeys(targets, timestamp))
    return {target.partition: offset for target, offset in found.items()}


def offsets_of(
    brokers: Brokers, times: Mapping[TopicPartition, int], *, committed: bool = False
) -> dict[TopicPartition, int]:
    """The same for partitions of many topics, with a request to each leader.

    `committed`: the end is the last stable offset, before what transactions have still open.
    """
    found: dict[TopicPartition, int] = {}

    def attempt() -> dict[TopicPartition, int]:
        missing = times.keys() - found.keys()
        for leader, led in by_leader(brokers, sorted(missing), Operation.DESCRIBE).items():
            request = ListOffsetsRequest(
                isolation_level=READ_COMMITTED if committed else READ_UNCOMMITTED,
                topics=tuple(_wanted(topic, led[topic], times) for topic in led),
            )
            answer = brokers.broker(leader).call(list_offsets.API, request)
            for topic in answer.topics:
                for each in topic.partitions:
                    target = TopicPartition(topic.name, each.partition_index)
                    needs = on_topic(brokers.who, topic.name, Operation.DESCRIBE)
                    check(each.error_code, str(target), needs=needs)
                    found[target] = each.offset
        return found

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
