"""Commits consumed offsets to the cluster, so that its own tools show a reader's progress.

Readers do not resume from them: what has landed, and where to continue, is recorded with the files.
"""

from collections.abc import Mapping
from typing import NamedTuple

from client.connection.brokers import Brokers
from client.connection.connection import BrokerConnection
from client.errors import ErrorCode, UnknownTopic, check
from client.groups.coordinators import coordinator
from client.producing.delivery import TopicPartition
from client.rights import on_group, on_topic
from wire.acls import Operation
from wire.messages import offset_commit
from wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


class Consumed(NamedTuple):
    """A consumed position: all records before `offset`, the last of them written in
    `leader_epoch`."""

    offset: int
    leader_epoch: int = -1


def commit_offsets(
    brokers: Brokers, group: str, offsets: Mapping[TopicPartition, Consumed]
) -> None:
    """Commits these offsets under the group's name.

    The group must have no members: otherwise another program uses it, and the coordinator refuses.
    """
    brokers.persist(lambda: _commit(brokers, group, offsets))


def _commit(brokers: Brokers, group: str, offsets: Mapping[TopicPartition, Consumed]) -> None:
    request = OffsetCommitRequest(group_id=group, topics=_topics(offsets))
    response = _coordinator(brokers, group).call(offset_commit.API, request)
    for topic in response.topics:
        for partition in topic.partitions:
            target = TopicPartition(topic.name, partition.partition_index)
            if partition.error_code is ErrorCode.unknown_topic_or_partition:
                # It was read, so it existed and has been deleted since.
                missing_text = f"offset of group {group}: no partition {target}"
                raise UnknownTopic(target.topic, missing_text)
            needs = on_topic(brokers.who, topic.name, Operation.READ)
            if partition.error_code is ErrorCode.group_authorization_failed:
                needs = on_group(brokers.who, group, Operation.READ)
            check(partition.error_code, f"offset of group {group} in {target}", needs=needs)


def _topics(offsets: Mapping[TopicPartition, Consumed]) -> tuple[OffsetCommitRequestTopic, ...]:
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), position in offsets.items():
        partition_request = OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=position.offset,
            committed_leader_epoch=position.leader_epoch,
            committed_metadata="",
        )
        topics.setdefault(topic, []).append(partition_request)
    return tuple(
        OffsetCommitRequestTopic(name=name, partitions=tuple(partitions))
        for name, partitions in topics.items()
    )


def _coordinator(brokers: Brokers, group: str) -> BrokerConnection:
    """Connects to the group's coordinator. Raises Unsupported if brokers keep no offsets."""
    brokers.any_broker().version(offset_commit.API)
    return coordinator(brokers, group, Operation.READ)
