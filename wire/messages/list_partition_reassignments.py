"""ListPartitionReassignments (key 46): returns the moves of replicas in progress."""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class ListPartitionReassignmentsTopics(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    partition_indexes: tuple[int, ...] = ()


class ListPartitionReassignmentsRequest(Struct, frozen=True, kw_only=True, gc=False):
    timeout: int = 60_000
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = None


class OngoingPartitionReassignment(Struct, frozen=True, kw_only=True, gc=False):
    partition_index: int
    replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


class OngoingTopicReassignment(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    partitions: tuple[OngoingPartitionReassignment, ...]


class ListPartitionReassignmentsResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    topics: tuple[OngoingTopicReassignment, ...] = ()


API = Api(
    key=46,
    name="ListPartitionReassignments",
    versions=range(1),
    request=ListPartitionReassignmentsRequest,
    response=ListPartitionReassignmentsResponse,
)
