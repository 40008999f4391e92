"""DeleteRecords (key 21): raises the start offset of partitions, deleting older records."""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class DeleteRecordsPartition(Struct, frozen=True, kw_only=True, gc=False):
    partition_index: int
    offset: int


class DeleteRecordsTopic(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    partitions: tuple[DeleteRecordsPartition, ...]


class DeleteRecordsRequest(Struct, frozen=True, kw_only=True, gc=False):
    topics: tuple[DeleteRecordsTopic, ...]
    timeout: int


class DeleteRecordsPartitionResult(Struct, frozen=True, kw_only=True, gc=False):
    partition_index: int
    low_watermark: int = -1
    error_code: ErrorCode = ErrorCode.none


class DeleteRecordsTopicResult(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    partitions: tuple[DeleteRecordsPartitionResult, ...]


class DeleteRecordsResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    topics: tuple[DeleteRecordsTopicResult, ...]


API = Api(
    key=21,
    name="DeleteRecords",
    versions=range(3),
    request=DeleteRecordsRequest,
    response=DeleteRecordsResponse,
)
