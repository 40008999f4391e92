"""AlterPartitionReassignments (key 45): moves replicas to other brokers."""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class ReassignablePartition(Struct, frozen=True, kw_only=True, gc=False):
    partition_index: int
    replicas: tuple[int, ...] | None = None


class ReassignableTopic(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    partitions: tuple[ReassignablePartition, ...]


class AlterPartitionReassignmentsRequest(Struct, frozen=True, kw_only=True, gc=False):
    timeout: int = 60_000
    topics: tuple[ReassignableTopic, ...]


class ReassignablePartitionResponse(Struct, frozen=True, kw_only=True, gc=False):
    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


class ReassignableTopicResponse(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    partitions: tuple[ReassignablePartitionResponse, ...]


class AlterPartitionReassignmentsResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    responses: tuple[ReassignableTopicResponse, ...] = ()


API = Api(
    key=45,
    name="AlterPartitionReassignments",
    versions=range(1),
    request=AlterPartitionReassignmentsRequest,
    response=AlterPartitionReassignmentsResponse,
)
