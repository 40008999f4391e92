"""What is done to groups without being a member of one: they, or offsets of theirs, are deleted.
What is committed for them is in offset_commits.py."""

from collections.abc import Collection

from client.brokers import Brokers
from client.delivery import TopicPartition
from client.errors import ErrorCode, Refused, refusal
from client.group_coordinators import coordinator
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
    """With all that it has committed. Refused with NON_EMPTY_GROUP while it has members, and with
    GROUP_ID_NOT_FOUND if there is none."""

    def attempt() -> None:
        request = DeleteGroupsRequest(groups_names=(name,))
        for each in coordinator(brokers, name).call(delete_groups.API, request).results:
            if each.error_code is not ErrorCode.none:
                raise _refusal(brokers, name, each.error_code)

    brokers.persist(attempt)


def delete_offsets(brokers: Brokers, name: str, partitions: Collection[TopicPartition]) -> None:
    """What the group has committed in these. Refused with GROUP_SUBSCRIBED_TO_TOPIC where a member
    reads the topic, and with GROUP_ID_NOT_FOUND if there is no such group; what is not refused is
    gone then."""
    request = OffsetDeleteRequest(
        group_id=name,
        topics=tuple(
            OffsetDeleteRequestTopic(
                name=each.topic,
                partitions=tuple(
                    OffsetDeleteRequestPartition(partition_index=index) for index in each.partitions
                ),
            )
            for each in by_topic(partitions)
        ),
    )

    def attempt() -> None:
        answer = coordinator(brokers, name).call(offset_delete.API, request)
        if answer.error_code is not ErrorCode.none:
            raise _refusal(brokers, name, answer.error_code)
        for topic in answer.topics:
            for each in topic.partitions:
                if each.error_code is not ErrorCode.none:
                    target = TopicPartition(topic.name, each.partition_index)
                    raise _of_offset(brokers, name, target, each.error_code)

    brokers.persist(attempt)


def _of_offset(brokers: Brokers, name: str, target: TopicPartition, code: ErrorCode) -> Refused:
    said = None
    if code is ErrorCode.group_subscribed_to_topic:
        said = "it has members that read the topic: stop them first"
    needs = on_topic(brokers.who, target.topic, Operation.READ)
    return refusal(f"offset of group {name} in {target}", code, said, needs=needs)


def _refusal(brokers: Brokers, name: str, code: ErrorCode) -> Refused:
    said = {
        ErrorCode.non_empty_group: "it has members: stop them first",
        ErrorCode.group_id_not_found: "there is none of that name",
    }.get(code)
    needs = on_group(brokers.who, name, Operation.DELETE)
    return refusal(f"group {name}", code, said, needs=needs)
