"""InitProducerId (key 22), versions 0–4.

Each request gets a new id with epoch 0, also one that names the id it had before: as in Kafka, only
transactional producers keep theirs. No two producers ever get the same id, in any cluster.

Not here: transactions. A transactional id is answered with TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
which both librdkafka and the Java client take for final; anything milder librdkafka tries again for
ever.
"""

from typing import TYPE_CHECKING

from broker.caller import Caller
from broker.complaints import Kind
from cluster.errors import ClusterError
from wire.errors import ErrorCode
from wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from broker.broker import Broker


async def handle(
    broker: "Broker", request: InitProducerIdRequest, caller: Caller
) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        return InitProducerIdResponse(error_code=ErrorCode.transactional_id_authorization_failed)
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        return InitProducerIdResponse(error_code=ErrorCode.invalid_request)
    try:
        producer_id = await broker.producer_ids.next()
    except ClusterError as error:
        broker.complaints.say(Kind.NO_PRODUCER_ID, caller.host, f"error={str(error)!r}")
        return InitProducerIdResponse(error_code=ErrorCode.coordinator_load_in_progress)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
