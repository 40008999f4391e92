"""DescribeProducers (key 61): returns the producers that a partition remembers, with their last
sequences.

Not supported: transactions; `coordinator_epoch` and `current_txn_start_offset` are always -1.
"""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class TopicRequest(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    partition_indexes: tuple[int, ...] = ()


class DescribeProducersRequest(Struct, frozen=True, kw_only=True, gc=False):
    topics: tuple[TopicRequest, ...]


class ProducerState(Struct, frozen=True, kw_only=True, gc=False):
    producer_id: int
    producer_epoch: int
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = -1
    current_txn_start_offset: int = -1


class PartitionResponse(Struct, frozen=True, kw_only=True, gc=False):
    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    active_producers: tuple[ProducerState, ...] = ()


class TopicResponse(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    partitions: tuple[PartitionResponse, ...]


class DescribeProducersResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    topics: tuple[TopicResponse, ...]


API = Api(
    key=61,
    name="DescribeProducers",
    versions=range(1),
    request=DescribeProducersRequest,
    response=DescribeProducersResponse,
)
