"""InitProducerId (key 22), versions 0–4.

Each request gets a new id with epoch 0, even one that names its previous id: as in Kafka, only
transactional producers keep theirs. No two producers ever get the same id, in any cluster, and no
other principal can use it (`broker.access.producer_ids`). A principal with WRITE on some topic
needs no further right, as since Kafka 2.8.

Not here: transactions. A transactional id is answered as by FindCoordinator.
"""

import msgspec

from broker.access.authorization import Authorization
from broker.access.producer_ids import ProducerIds
from broker.api.find_coordinator import without_transactions
from broker.connections.caller import Caller
from wire.acls import THE_CLUSTER, Operation, ResourceType
from wire.errors import ErrorCode
from wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


class Needs(msgspec.Struct, frozen=True):
    producer_ids: ProducerIds
    authorization: Authorization


def handle(needs: Needs, request: InitProducerIdRequest, caller: Caller) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        return InitProducerIdResponse(error_code=without_transactions(caller))
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        return InitProducerIdResponse(error_code=ErrorCode.invalid_request)
    rights = needs.authorization.of(caller)
    if not rights.may_on_some_topic(Operation.WRITE) and rights.refuses(
        Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, THE_CLUSTER
    ):
        return InitProducerIdResponse(error_code=ErrorCode.cluster_authorization_failed)
    producer_id = needs.producer_ids.new(caller.principal)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
