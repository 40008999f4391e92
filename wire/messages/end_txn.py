"""EndTxn (key 26): ends a producer's transaction with a marker in each partition.

For clients only: Penstock's brokers support no transactions. Not supported: version 5, which gives
the producer a new epoch.
"""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class EndTxnRequest(Struct, frozen=True, kw_only=True, gc=False):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool


class EndTxnResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    error_code: ErrorCode = ErrorCode.none


API = Api(
    key=26,
    name="EndTxn",
    versions=range(4),
    request=EndTxnRequest,
    response=EndTxnResponse,
)
