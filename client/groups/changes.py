"""Changes groups from outside: deletes groups, or their committed offsets. offset_commits.py
commits offsets."""

from collections.abc import Collection

from client.connection.brokers import Brokers
from client.errors import ErrorCode, Refused, refusal
from client.groups.coordinators import coordinator
from client.producing.delivery import TopicPartition
from client.rights import on_group, on_topic
from wire.acls import Operation
from wire.consumer_protocol import by_topic
from wire.messages import delete_groups, offset_delete
from wire.messages.delete_groups import DeleteGroupsRequest
from wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)


def delete_group(brokers: Brokers, name: str) -> None:
    """Deletes a group and its offsets. Raises Refused: NON_EMPTY_GROUP while the group has members,
    GROUP_ID_NOT_FOUND if it does not exist."""

    def attempt() -> None:
        request = DeleteGroupsRequest(groups_names=(name,))
        for result in coordinator(brokers, name).call(delete_groups.API, request).results:
            if result.error_code is not ErrorCode.none:
                raise _refusal(brokers, name, result.error_code)

    brokers.persist(attempt)


def delete_offsets(brokers: Brokers, name: str, partitions: Collection[TopicPartition]) -> None:
    """Deletes the group's offsets in these partitions. Raises Refused: GROUP_SUBSCRIBED_TO_TOPIC
    where a member reads the topic, GROUP_ID_NOT_FOUND if the group does not exist. The other
    offsets are deleted."""
    request = OffsetDeleteRequest(
        group_id=name,
        topics=tuple(
            OffsetDeleteRequestTopic(
                name=topic_request.topic,
                partitions=tuple(
                    OffsetDeleteRequestPartition(partition_index=index)
                    for index in topic_request.partitions
                ),
            )
            for topic_request in by_topic(partitions)
        ),
    )

    def attempt() -> None:
        response = coordinator(brokers, name).call(offset_delete.API, request)
        if response.error_code is not ErrorCode.none:
            raise _refusal(brokers, name, response.error_code)
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code is not ErrorCode.none:
                    target = TopicPartition(topic.name, partition.partition_index)
                    raise _of_offset(brokers, name, target, partition.error_code)

    brokers.persist(attempt)


def _of_offset(brokers: Brokers, name: str, target: TopicPartition, code: ErrorCode) -> Refused:
    message = None
    if code is ErrorCode.group_subscribed_to_topic:
        message = "it has members that read the topic: stop them first"
    needs = on_topic(brokers.who, target.topic, Operation.READ)
    return refusal(f"offset of group {name} in {target}", code, message, needs=needs)


def _refusal(brokers: Brokers, name: str, code: ErrorCode) -> Refused:
    message = {
        ErrorCode.non_empty_group: "it has members: stop them first",
        ErrorCode.group_id_not_found: "no such group",
    }.get(code)
    needs = on_group(brokers.who, name, Operation.DELETE)
    return refusal(f"group {name}", code, message, needs=needs)
