"""OffsetDelete (key 47), version 0.

While a group has members, only offsets of topics that none of them subscribes to can be deleted.
Subscriptions are known of the `consumer` protocol alone.
"""

from broker.api.group_requests import REFUSED, Needs, refuses
from broker.connections.caller import Caller
from broker.errors import ApiError
from broker.groups.client_fairness import client_of
from cluster.errors import InvalidTopicName
from cluster.layout.names import check_topic_name
from cluster.values import TopicPartition
from wire.acls import Operation
from wire.errors import ErrorCode
from wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


async def handle(
    needs: Needs, request: OffsetDeleteRequest, caller: Caller
) -> OffsetDeleteResponse:
    rights = needs.authorization.of(caller)
    if refuses(rights, Operation.DELETE, request.group_id):
        return OffsetDeleteResponse(error_code=REFUSED)
    codes: dict[TopicPartition, ErrorCode] = {}
    for topic in request.topics:
        code = ErrorCode.none
        try:
            rights.check_topic(Operation.READ, topic.name)
            check_topic_name(topic.name)
        except ApiError as error:
            code = error.code
        except InvalidTopicName:
            code = ErrorCode.unknown_topic_or_partition
        codes |= {
            TopicPartition(topic.name, partition.partition_index): code
            for partition in topic.partitions
        }
    deletable_keys = [key for key, code in codes.items() if not code]
    try:
        code, outcome = await needs.groups.delete_offsets(
            request.group_id, deletable_keys, client_of(caller)
        )
    except ApiError as error:
        code, outcome = error.code, {}
    if code:
        return OffsetDeleteResponse(error_code=code)
    codes |= outcome
    return OffsetDeleteResponse(
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=codes[TopicPartition(topic.name, partition.partition_index)],
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )
