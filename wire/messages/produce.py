"""Produce (key 0): appends record batches to partitions.

Brokers advertise it from version 0, because librdkafka drops compression if the minimum is higher;
but versions before 3 have record formats 0 and 1, and are refused. Not supported: transactions. A
batch is accepted or refused as a whole; from version 8, `record_errors` names the faulty record, if
it is only one.
"""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class PartitionProduceData(Struct, frozen=True, kw_only=True, gc=False):
    index: int
    records: memoryview | None


class TopicProduceData(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    partition_data: tuple[PartitionProduceData, ...]


class ProduceRequest(Struct, frozen=True, kw_only=True, gc=False):
    transactional_id: str | None = None
    acks: int
    timeout: int
    topic_data: tuple[TopicProduceData, ...]


class BatchIndexAndErrorMessage(Struct, frozen=True, kw_only=True, gc=False):
    batch_index: int
    batch_index_error_message: str | None = None


class PartitionProduceResponse(Struct, frozen=True, kw_only=True, gc=False):
    index: int
    error_code: ErrorCode = ErrorCode.none
    base_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = ()
    error_message: str | None = None


class TopicProduceResponse(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    partition_responses: tuple[PartitionProduceResponse, ...]


class ProduceResponse(Struct, frozen=True, kw_only=True, gc=False):
    responses: tuple[TopicProduceResponse, ...]
    throttle_time: int = 0


API = Api(
    key=0,
    name="Produce",
    versions=range(3, 10),
    request=ProduceRequest,
    response=ProduceResponse,
)
