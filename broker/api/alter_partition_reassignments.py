"""AlterPartitionReassignments (key 45), version 0.

Moves replicas of partitions to other brokers: the new ones follow until they are in sync, then the
old ones are removed. Without brokers, cancels a reassignment that is under way. Only the controller
serves it; it answers when the reassignment has begun.
"""

import asyncio

import msgspec

from broker.access.authorization import Authorization
from broker.admin.reassignments import Outcomes, ReassignmentAdmin
from broker.connections.caller import Caller
from broker.errors import ApiError
from wire.acls import Operation
from wire.errors import ErrorCode
from wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)


class Needs(msgspec.Struct, frozen=True):
    reassignments: ReassignmentAdmin
    authorization: Authorization


async def handle(
    needs: Needs, request: AlterPartitionReassignmentsRequest, caller: Caller
) -> AlterPartitionReassignmentsResponse:
    try:
        needs.authorization.of(caller).check_cluster(Operation.ALTER)
        if len({topic.name for topic in request.topics}) < len(request.topics):
            raise ApiError(ErrorCode.invalid_request, "Duplicate topic in request.")
    except ApiError as error:
        return AlterPartitionReassignmentsResponse(
            error_code=error.code, error_message=error.message
        )

    async def reassign(topic: ReassignableTopic) -> ReassignableTopicResponse:
        targets = {partition.partition_index: partition.replicas for partition in topic.partitions}
        try:
            outcomes = await needs.reassignments.reassign(topic.name, targets, request.timeout)
        except ApiError as error:
            outcomes = dict.fromkeys(targets, error)
        return _response(topic.name, outcomes)

    responses = await asyncio.gather(*(reassign(topic) for topic in request.topics))
    return AlterPartitionReassignmentsResponse(responses=tuple(responses))


def _response(name: str, outcomes: Outcomes) -> ReassignableTopicResponse:
    return ReassignableTopicResponse(
        name=name,
        partitions=tuple(
            ReassignablePartitionResponse(
                partition_index=index,
                error_code=error.code if error else ErrorCode.none,
                error_message=error.message if error else None,
            )
            for index, error in outcomes.items()
        ),
    )
