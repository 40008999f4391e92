"""OffsetDelete (key 47): offsets that a group has committed are forgotten.

Left out: nothing.
"""

from dataclasses import dataclass

from wire.codec import Api
from wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteRequestPartition:
    partition_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteRequestTopic:
    name: str
    partitions: tuple[OffsetDeleteRequestPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteRequest:
    group_id: str
    topics: tuple[OffsetDeleteRequestTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteResponsePartition:
    partition_index: int
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteResponseTopic:
    name: str
    partitions: tuple[OffsetDeleteResponsePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteResponse:
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
