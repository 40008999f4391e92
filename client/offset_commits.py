"""Consumed offsets, told to the cluster: so that its own tools show how far a reader has come.

Nobody reads on from there: what has landed, and where to read on, is written down with the files.
"""

from collections.abc import Mapping
from typing import NamedTuple

from client.brokers import Brokers
from client.connection import BrokerConnection
from client.delivery import TopicPartition
from client.errors import ErrorCode, UnknownTopic, check
from client.group_coordinators import coordinator
from client.rights import on_group, on_topic
from wire.acls import Operation
from wire.messages import offset_commit
from wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


class Consumed(NamedTuple):
    """Everything of a partition before `offset`; the last of it was written in `leader_epoch`."""

    offset: int
    leader_epoch: int = -1


def commit_offsets(
    brokers: Brokers, group: str, offsets: Mapping[TopicPartition, Consumed]
) -> None:
    """The cluster has these then, under the group's name.

    The group has no members. If it has, it is not ours, and the coordinator refuses.
    """
    brokers.persist(lambda: _commit(brokers, group, offsets))


def _commit(brokers: Brokers, group: str, offsets: Mapping[TopicPartition, Consumed]) -> None:
    request = OffsetCommitRequest(group_id=group, topics=_topics(offsets))
    answer = _coordinator(brokers, group).call(offset_commit.API, request)
    for topic in answer.topics:
        for each in topic.partitions:
            target = TopicPartition(topic.name, each.partition_index)
            if each.error_code is ErrorCode.unknown_topic_or_partition:
                # It has been read: so it was there, and is there no more.
                raise UnknownTopic(f"offset of group {group}: no partition {target}")
            needs = on_topic(brokers.who, topic.name, Operation.READ)
            if each.error_code is ErrorCode.group_authorization_failed:
                needs = on_group(brokers.who, group, Operation.READ)
            check(each.error_code, f"offset of group {group} in {target}", needs=needs)


def _topics(offsets: Mapping[TopicPartition, Consumed]) -> tuple[OffsetCommitRequestTopic, ...]:
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), consumed in offsets.items():
        wanted = OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=consumed.offset,
            committed_leader_epoch=consumed.leader_epoch,
            committed_metadata="",
        )
        topics.setdefault(topic, []).append(wanted)
    return tuple(
        OffsetCommitRequestTopic(name=name, partitions=tuple(partitions))
        for name, partitions in topics.items()
    )


def _coordinator(brokers: Brokers, group: str) -> BrokerConnection:
    """The broker that keeps the group's offsets. Raises Unsupported if none keeps any."""
    brokers.any_broker().version(offset_commit.API)
    return coordinator(brokers, group, Operation.READ)
