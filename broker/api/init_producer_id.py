"""InitProducerId (key 22), versions 0–4.

Each request gets a new id with epoch 0, also one that names the id it had before: as in Kafka, only
transactional producers keep theirs. No two producers ever get the same id, in any cluster. Who may
write to some topic needs no right of its own for this, as since Kafka 2.8.

Not here: transactions. A transactional id is answered as FindCoordinator is.
"""

import asyncio

import msgspec

from broker.api.find_coordinator import without_transactions
from broker.authorization import Authorization
from broker.caller import Caller
from broker.complaints import ComplaintKind, Complaints
from cluster.errors import ClusterError
from cluster.producer_ids import allocate
from cluster.session import Session
from wire.acls import THE_CLUSTER, Operation, ResourceType
from wire.errors import ErrorCode
from wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


class ProducerIds:
    """Hands out ids that no producer has had before: taken from ZooKeeper in blocks, handed out one
    by one. A block that is not used up when the broker stops is lost, and nobody minds."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._block = iter(range(0))
        self._refill = asyncio.Lock()

    async def next(self) -> int:
        """The next id; asks ZooKeeper where the block is used up."""
        while (producer_id := next(self._block, None)) is None:
            async with self._refill:
                # Somebody may have filled it while this one waited: take from that first.
                if (producer_id := next(self._block, None)) is not None:
                    return producer_id
                self._block = iter(await asyncio.to_thread(allocate, self._session))
        return producer_id


class Needs(msgspec.Struct, frozen=True):
    producer_ids: ProducerIds
    complaints: Complaints
    authorization: Authorization


async def handle(
    needs: Needs, request: InitProducerIdRequest, caller: Caller
) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        return InitProducerIdResponse(error_code=without_transactions(caller))
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        return InitProducerIdResponse(error_code=ErrorCode.invalid_request)
    rights = needs.authorization.of(caller)
    if not rights.may_on_some_topic(Operation.WRITE) and rights.refuses(
        Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, THE_CLUSTER
    ):
        return InitProducerIdResponse(error_code=ErrorCode.cluster_authorization_failed)
    try:
        producer_id = await needs.producer_ids.next()
    except ClusterError as error:
        needs.complaints.say(ComplaintKind.NO_PRODUCER_ID, caller.host, f"error={str(error)!r}")
        return InitProducerIdResponse(error_code=ErrorCode.coordinator_load_in_progress)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
