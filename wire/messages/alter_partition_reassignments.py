"""AlterPartitionReassignments (key 45): replicas moved to other brokers.

Left out: nothing.
"""

from dataclasses import dataclass

from wire.codec import Api
from wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignablePartition:
    partition_index: int
    replicas: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignableTopic:
    name: str
    partitions: tuple[ReassignablePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsRequest:
    timeout: int = 60_000
    topics: tuple[ReassignableTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignablePartitionResponse:
    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignableTopicResponse:
    name: str
    partitions: tuple[ReassignablePartitionResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsResponse:
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
