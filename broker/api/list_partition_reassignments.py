"""ListPartitionReassignments (key 46), version 0.

Partitions whose replicas are being moved: all of them, or those of the requested partitions.
"""

from collections.abc import Iterable, Iterator

import msgspec

from broker.access.authorization import Authorization
from broker.connections.caller import Caller
from broker.errors import ApiError
from cluster.values import ClusterSnapshot
from cluster.view import ClusterView
from wire.acls import Operation
from wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


class Needs(msgspec.Struct, frozen=True):
    cluster: ClusterView
    authorization: Authorization


def handle(
    needs: Needs, request: ListPartitionReassignmentsRequest, caller: Caller
) -> ListPartitionReassignmentsResponse:
    try:
        needs.authorization.of(caller).check_cluster(Operation.DESCRIBE)
    except ApiError as error:
        return ListPartitionReassignmentsResponse(
            error_code=error.code, error_message=error.message
        )
    snapshot = needs.cluster.snapshot
    if request.topics is None:
        requested_indexes: dict[str, Iterable[int]] = {
            name: range(len(info.partitions)) for name, info in snapshot.topics.items()
        }
    else:
        requested_indexes = {topic.name: topic.partition_indexes for topic in request.topics}
    topics = (
        OngoingTopicReassignment(name=name, partitions=tuple(_moving(snapshot, name, indexes)))
        for name, indexes in requested_indexes.items()
    )
    return ListPartitionReassignmentsResponse(
        topics=tuple(topic for topic in topics if topic.partitions)
    )


def _moving(
    snapshot: ClusterSnapshot, name: str, indexes: Iterable[int]
) -> Iterator[OngoingPartitionReassignment]:
    info = snapshot.topics.get(name)
    for index in indexes:
        if info is None or not 0 <= index < len(info.partitions):
            continue
        partition = info.partitions[index]
        if partition.move is not None:
            yield OngoingPartitionReassignment(
                partition_index=index,
                replicas=partition.replicas,
                adding_replicas=partition.move.adding,
                removing_replicas=partition.move.removing,
            )
