"""ListPartitionReassignments (key 46), version 0.

Replicas do not move yet, so nothing is ever under way: the list is empty, whatever is asked about,
as Kafka's is for partitions that are not being moved.
"""

from broker.authorization import Authorization
from broker.caller import Caller
from broker.errors import ApiError
from wire.acls import Operation
from wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(
    authorization: Authorization, _request: ListPartitionReassignmentsRequest, caller: Caller
) -> ListPartitionReassignmentsResponse:
    try:
        authorization.of(caller).check_cluster(Operation.DESCRIBE)
    except ApiError as error:
        return ListPartitionReassignmentsResponse(
            error_code=error.code, error_message=error.message
        )
    return ListPartitionReassignmentsResponse()
