"""ElectLeaders (key 43): other leaders for partitions.

Left out: nothing.
"""

from dataclasses import dataclass
from enum import IntEnum

from wire.codec import Api
from wire.errors import ErrorCode


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    topic: str
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersRequest:
    election_type: int = ElectionType.PREFERRED
    topic_partitions: tuple[TopicPartitions, ...] | None
    timeout: int = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    partition_id: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaElectionResult:
    topic: str
    partition_result: tuple[PartitionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersResponse:
    throttle_time: int = 0
    error_code: ErrorCode = ErrorCode.none
    replica_election_results: tuple[ReplicaElectionResult, ...] = ()


API = Api(
    key=43,
    name="ElectLeaders",
    versions=range(3),
    request=ElectLeadersRequest,
    response=ElectLeadersResponse,
)
