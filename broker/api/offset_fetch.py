"""OffsetFetch (key 9), versions 1–8.

For a topic that the client may not describe, only that error is returned; a request for all topics
leaves it out. There are no transactions: every offset is stable.
"""

from broker.access.authorization import Rights
from broker.api.group_requests import REFUSED, Needs, refuses
from broker.connections.caller import Caller
from broker.errors import ApiError
from broker.groups.client_fairness import Client, client_of
from broker.groups.group_store import Offsets
from cluster.errors import InvalidTopicName
from cluster.layout.names import check_topic_name
from cluster.values import TopicPartition
from wire.acls import Operation, ResourceType
from wire.errors import ErrorCode
from wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)


async def handle(needs: Needs, request: OffsetFetchRequest, caller: Caller) -> OffsetFetchResponse:
    rights = needs.authorization.of(caller)
    client = client_of(caller)
    groups = [await _of_group(needs, rights, group, client) for group in request.groups]
    return OffsetFetchResponse(groups=tuple(groups))


async def _of_group(
    needs: Needs, rights: Rights, asked: OffsetFetchRequestGroup, client: Client
) -> OffsetFetchResponseGroup:
    name = asked.group_id
    if refuses(rights, Operation.DESCRIBE, name):
        return _refused(asked, REFUSED)
    try:
        if asked.topics is None:
            offsets = await needs.groups.offsets(name, None, client)
            topics = _all_topics(rights, offsets)
        else:
            visible_offsets = {
                topic.name: not rights.refuses(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
                for topic in asked.topics
            }
            requested_keys = [
                TopicPartition(topic.name, index)
                for topic in asked.topics
                if visible_offsets[topic.name]
                for index in topic.partition_indexes
            ]
            requested_offsets = await needs.groups.offsets(
                name, [*filter(_may_exist, requested_keys)], client
            )
            topics = tuple(
                _topic(topic, requested_offsets)
                if visible_offsets[topic.name]
                else _topic_error(topic, ErrorCode.topic_authorization_failed)
                for topic in asked.topics
            )
    except ApiError as error:
        return _refused(asked, error.code)
    return OffsetFetchResponseGroup(group_id=name, topics=topics)


def _may_exist(partition: TopicPartition) -> bool:
    """Whether the name can have committed offsets: it need not be an existing topic."""
    try:
        check_topic_name(partition.topic)
    except InvalidTopicName:
        return False
    return partition.partition >= 0


def _all_topics(rights: Rights, committed: Offsets) -> tuple[OffsetFetchResponseTopic, ...]:
    indexes_by_topic: dict[str, list[int]] = {}
    for topic, index in committed:
        indexes_by_topic.setdefault(topic, []).append(index)
    return tuple(
        _topic(
            OffsetFetchRequestTopic(name=name, partition_indexes=tuple(sorted(indexes))), committed
        )
        for name, indexes in sorted(indexes_by_topic.items())
        if rights.may_on_topic(Operation.DESCRIBE, name)
    )


def _topic(asked: OffsetFetchRequestTopic, committed: Offsets) -> OffsetFetchResponseTopic:
    def partition(index: int) -> OffsetFetchResponsePartition:
        offset = committed.get(TopicPartition(asked.name, index))
        if offset is None:
            return OffsetFetchResponsePartition(partition_index=index)
        return OffsetFetchResponsePartition(
            partition_index=index,
            committed_offset=offset.offset,
            committed_leader_epoch=offset.leader_epoch,
            metadata=offset.metadata,
        )

    return OffsetFetchResponseTopic(
        name=asked.name, partitions=tuple(map(partition, asked.partition_indexes))
    )


def _topic_error(asked: OffsetFetchRequestTopic, code: ErrorCode) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=asked.name,
        partitions=tuple(
            OffsetFetchResponsePartition(partition_index=index, error_code=code)
            for index in asked.partition_indexes
        ),
    )


def _refused(asked: OffsetFetchRequestGroup, code: ErrorCode) -> OffsetFetchResponseGroup:
    topics = tuple(_topic_error(topic, code) for topic in asked.topics or ())
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics, error_code=code)
