"""OffsetForLeaderEpoch (key 23): returns the end offset of a leader epoch, to find where logs
diverge."""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class OffsetForLeaderPartition(Struct, frozen=True, kw_only=True, gc=False):
    partition: int
    current_leader_epoch: int = -1
    leader_epoch: int


class OffsetForLeaderTopic(Struct, frozen=True, kw_only=True, gc=False):
    topic: str
    partitions: tuple[OffsetForLeaderPartition, ...]


class OffsetForLeaderEpochRequest(Struct, frozen=True, kw_only=True, gc=False):
    replica_id: int = -2
    topics: tuple[OffsetForLeaderTopic, ...]


class EpochEndOffset(Struct, frozen=True, kw_only=True, gc=False):
    error_code: ErrorCode = ErrorCode.none
    partition: int
    leader_epoch: int = -1
    end_offset: int = -1


class OffsetForLeaderTopicResult(Struct, frozen=True, kw_only=True, gc=False):
    topic: str
    partitions: tuple[EpochEndOffset, ...]


class OffsetForLeaderEpochResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    topics: tuple[OffsetForLeaderTopicResult, ...]


API = Api(
    key=23,
    name="OffsetForLeaderEpoch",
    versions=range(2, 5),
    request=OffsetForLeaderEpochRequest,
    response=OffsetForLeaderEpochResponse,
)
