"""DescribeProducers (key 61): the producers that a partition remembers, and their last sequence.

Left out: transactions; `coordinator_epoch` and `current_txn_start_offset` are always -1.
"""

from dataclasses import dataclass

from wire.codec import Api
from wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRequest:
    name: str
    partition_indexes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersRequest:
    topics: tuple[TopicRequest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    producer_id: int
    producer_epoch: int
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = -1
    current_txn_start_offset: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResponse:
    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    active_producers: tuple[ProducerState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResponse:
    name: str
    partitions: tuple[PartitionResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersResponse:
    throttle_time: int = 0
    topics: tuple[TopicResponse, ...]


API = Api(
    key=61,
    name="DescribeProducers",
    versions=range(1),
    request=DescribeProducersRequest,
    response=DescribeProducersResponse,
)
