"""ListOffsets (key 2): returns the offset for a timestamp, or for the beginning or the end.

Both isolation levels have the same result, as there are no transactions.
"""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api

LATEST = -1  # the end of what consumers may read
EARLIEST = -2
MAX_TIMESTAMP = -3  # from version 7: the record of the greatest timestamp


class ListOffsetsPartition(Struct, frozen=True, kw_only=True, gc=False):
    partition_index: int
    current_leader_epoch: int = -1
    timestamp: int


class ListOffsetsTopic(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    partitions: tuple[ListOffsetsPartition, ...]


class ListOffsetsRequest(Struct, frozen=True, kw_only=True, gc=False):
    replica_id: int = -1
    isolation_level: int = 0
    topics: tuple[ListOffsetsTopic, ...]


class ListOffsetsPartitionResponse(Struct, frozen=True, kw_only=True, gc=False):
    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


class ListOffsetsTopicResponse(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    partitions: tuple[ListOffsetsPartitionResponse, ...]


class ListOffsetsResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    topics: tuple[ListOffsetsTopicResponse, ...]


API = Api(
    key=2,
    name="ListOffsets",
    versions=range(1, 8),
    request=ListOffsetsRequest,
    response=ListOffsetsResponse,
)
