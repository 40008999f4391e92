"""EndTxn (key 26): the end of a producer's transaction, which a marker in each partition tells.

For clients only: Penstock's brokers serve no transactions. Left out: version 5, with which the
producer gets another epoch.
"""

from msgspec import Struct

from wire.codec import Api
from wire.errors import ErrorCode


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
