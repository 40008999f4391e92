"""ListPartitionReassignments (key 46), version 0.

Replicas do not move yet, so nothing is ever under way: the list is empty, whatever is asked about,
as Kafka's is for partitions that are not being moved.
"""

from typing import TYPE_CHECKING

from broker.caller import Caller
from wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from broker.broker import Broker


def handle(
    _broker: "Broker", _request: ListPartitionReassignmentsRequest, _caller: Caller
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse()
