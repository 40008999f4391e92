"""AddPartitionsToTxn (key 24): adds partitions to a producer's transaction.

For clients only: Penstock's brokers support no transactions. Not supported: version 4, in which
brokers ask about several transactions at once.
"""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class AddPartitionsToTxnTopic(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    partitions: tuple[int, ...] = ()


class AddPartitionsToTxnRequest(Struct, frozen=True, kw_only=True, gc=False):
    v3_and_below_transactional_id: str
    v3_and_below_producer_id: int
    v3_and_below_producer_epoch: int
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...]


class AddPartitionsToTxnPartitionResult(Struct, frozen=True, kw_only=True, gc=False):
    partition_index: int
    partition_error_code: ErrorCode = ErrorCode.none


class AddPartitionsToTxnTopicResult(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...]


class AddPartitionsToTxnResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...] = ()


API = Api(
    key=24,
    name="AddPartitionsToTxn",
    versions=range(4),
    request=AddPartitionsToTxnRequest,
    response=AddPartitionsToTxnResponse,
)
