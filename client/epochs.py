"""Where leaders' epochs ended: how far two histories of a partition are the same."""

from collections.abc import Mapping

from client.brokers import Brokers
from client.delivery import TopicPartition
from client.errors import check
from client.leaders import by_leader
from client.rights import on_topic
from wire.acls import Operation
from wire.messages import offset_for_leader_epoch
from wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

_CONSUMER = -1  # what a follower gives its id for


def end_offsets_of_epochs(
    brokers: Brokers, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Where this epoch of each partition, or the newest before it, ended in the log there is now.

    Whoever has read further than that, up to a batch of this epoch, has read another log. -1 where
    the leader cannot say: if it has seen no epoch that is so new.
    """
    found: dict[TopicPartition, int] = {}

    def attempt() -> dict[TopicPartition, int]:
        missing = epochs.keys() - found.keys()
        for leader, led in by_leader(brokers, sorted(missing), Operation.DESCRIBE).items():
            wanted = tuple(_wanted(topic, led[topic], epochs) for topic in led)
            request = OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=wanted)
            answer = brokers.broker(leader).call(offset_for_leader_epoch.API, request)
            for topic in answer.topics:
                for each in topic.partitions:
                    target = TopicPartition(topic.topic, each.partition)
                    needs = on_topic(brokers.who, topic.topic, Operation.DESCRIBE)
                    check(each.error_code, str(target), needs=needs)
                    found[target] = each.end_offset
        return found

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
