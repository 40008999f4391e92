"""InitProducerId (key 22): assigns the producer id and epoch under which a producer numbers its
batches.

Not supported: transactions; a request with a transactional id is refused.
"""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class InitProducerIdRequest(Struct, frozen=True, kw_only=True, gc=False):
    transactional_id: str | None = None
    transaction_timeout: int = 0
    producer_id: int = -1
    producer_epoch: int = -1


class InitProducerIdResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    error_code: ErrorCode = ErrorCode.none
    producer_id: int = -1
    producer_epoch: int = -1


API = Api(
    key=22,
    name="InitProducerId",
    versions=range(5),
    request=InitProducerIdRequest,
    response=InitProducerIdResponse,
)
