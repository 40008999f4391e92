"""ListPartitionReassignments (key 46), version 0.

Replicas do not move yet, so nothing is ever under way: the list is empty, whatever is asked about,
as Kafka's is for partitions that are not being moved.
"""

from broker.caller import Caller
from wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(
    _nothing: None, _request: ListPartitionReassignmentsRequest, _caller: Caller
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse()
