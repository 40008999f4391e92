"""OffsetDelete (key 47): deletes committed offsets of a group."""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class OffsetDeleteRequestPartition(Struct, frozen=True, kw_only=True, gc=False):
    partition_index: int


class OffsetDeleteRequestTopic(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    partitions: tuple[OffsetDeleteRequestPartition, ...]


class OffsetDeleteRequest(Struct, frozen=True, kw_only=True, gc=False):
    group_id: str
    topics: tuple[OffsetDeleteRequestTopic, ...]


class OffsetDeleteResponsePartition(Struct, frozen=True, kw_only=True, gc=False):
    partition_index: int
    error_code: ErrorCode = ErrorCode.none


class OffsetDeleteResponseTopic(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    partitions: tuple[OffsetDeleteResponsePartition, ...]


class OffsetDeleteResponse(Struct, frozen=True, kw_only=True, gc=False):
    error_code: ErrorCode = ErrorCode.none
    throttle_time: int = 0
    topics: tuple[OffsetDeleteResponseTopic, ...] = ()


API = Api(
    key=47,
    name="OffsetDelete",
    versions=range(1),
    request=OffsetDeleteRequest,
    response=OffsetDeleteResponse,
)
