"""OffsetCommit (key 8): commits a group's offsets, at the group's coordinator."""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api

NO_GENERATION = -1  # of a client that is no member and only stores offsets under the group's name


class OffsetCommitRequestPartition(Struct, frozen=True, kw_only=True, gc=False):
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int = -1
    committed_metadata: str | None = None


class OffsetCommitRequestTopic(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    partitions: tuple[OffsetCommitRequestPartition, ...]


class OffsetCommitRequest(Struct, frozen=True, kw_only=True, gc=False):
    group_id: str
    generation_id_or_member_epoch: int = NO_GENERATION
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time: int = -1
    topics: tuple[OffsetCommitRequestTopic, ...]


class OffsetCommitResponsePartition(Struct, frozen=True, kw_only=True, gc=False):
    partition_index: int
    error_code: ErrorCode = ErrorCode.none


class OffsetCommitResponseTopic(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    partitions: tuple[OffsetCommitResponsePartition, ...]


class OffsetCommitResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    topics: tuple[OffsetCommitResponseTopic, ...]


API = Api(
    key=8,
    name="OffsetCommit",
    versions=range(2, 9),
    request=OffsetCommitRequest,
    response=OffsetCommitResponse,
)
