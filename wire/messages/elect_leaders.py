"""ElectLeaders (key 43): elects new leaders for partitions."""

from enum import IntEnum

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


class TopicPartitions(Struct, frozen=True, kw_only=True, gc=False):
    topic: str
    partitions: tuple[int, ...] = ()


class ElectLeadersRequest(Struct, frozen=True, kw_only=True, gc=False):
    election_type: int = ElectionType.PREFERRED
    topic_partitions: tuple[TopicPartitions, ...] | None
    timeout: int = 60_000


class PartitionResult(Struct, frozen=True, kw_only=True, gc=False):
    partition_id: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


class ReplicaElectionResult(Struct, frozen=True, kw_only=True, gc=False):
    topic: str
    partition_result: tuple[PartitionResult, ...]


class ElectLeadersResponse(Struct, frozen=True, kw_only=True, gc=False):
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
