"""The end offsets of leader epochs, which show up to where two histories of a partition agree."""

from collections.abc import Mapping

from client.connection.brokers import Brokers
from client.errors import check
from client.producing.delivery import TopicPartition
from client.producing.leaders import by_leader
from client.rights import on_topic
from wire.acls import Operation
from wire.messages import offset_for_leader_epoch
from wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

_CONSUMER = -1  # in place of a follower's id


def end_offsets_of_epochs(
    brokers: Brokers, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Returns the end offset of each partition's epoch, or of the newest epoch before it, in the
    current log.

    A reader that has read beyond that offset, up to a batch of this epoch, has read another log. -1
    if the leader cannot say, because it has seen no epoch as new as this one.
    """
    end_offsets: dict[TopicPartition, int] = {}

    def attempt() -> dict[TopicPartition, int]:
        missing_targets = epochs.keys() - end_offsets.keys()
        for leader, led_partitions in by_leader(
            brokers, sorted(missing_targets), Operation.DESCRIBE
        ).items():
            topics = tuple(
                _wanted(topic, led_partitions[topic], epochs) for topic in led_partitions
            )
            request = OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=topics)
            response = brokers.broker(leader).call(offset_for_leader_epoch.API, request)
            for topic in response.topics:
                for partition in topic.partitions:
                    target = TopicPartition(topic.topic, partition.partition)
                    needs = on_topic(brokers.who, topic.topic, Operation.DESCRIBE)
                    check(partition.error_code, str(target), needs=needs)
                    end_offsets[target] = partition.end_offset
        return end_offsets

    return brokers.persist(attempt)


def _wanted(
    topic: str, partitions: list[int], epochs: Mapping[TopicPartition, int]
) -> OffsetForLeaderTopic:
    return OffsetForLeaderTopic(
        topic=topic,
        partitions=tuple(
            OffsetForLeaderPartition(
                partition=partition, leader_epoch=epochs[TopicPartition(topic, partition)]
            )
            for partition in partitions
        ),
    )
