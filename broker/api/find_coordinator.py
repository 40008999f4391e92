"""FindCoordinator (key 10), versions 0–4.

Nobody coordinates groups or transactions here, and whoever asks must learn that once and for all:
what may be tried again, as COORDINATOR_NOT_AVAILABLE, clients try without a word, Java's admin many
thousand times a second.

For groups the answer is this broker. What a client then wants of a coordinator (JoinGroup,
OffsetCommit, DescribeGroups and so on) is not served, and it says so. An error here would reach the
wrong ones as well: librdkafka looks for a coordinator on behalf of every consumer, and hands errors
to those that are assigned their partitions, too.

For transactions it is TRANSACTIONAL_ID_AUTHORIZATION_FAILED, as of InitProducerId: librdkafka tries
again after anything else.
"""

from dataclasses import dataclass

from broker.authorization import Authorization, Rights
from broker.caller import Caller
from broker.errors import ApiError
from cluster.view import ClusterView
from wire.acls import Operation, ResourceType
from wire.errors import ErrorCode
from wire.messages.find_coordinator import (
    GROUP,
    TRANSACTION,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_NO_TRANSACTIONS = "this broker has no transactions: an idempotent producer needs no id for them"


@dataclass(frozen=True, slots=True)
class Needs:
    cluster: ClusterView
    broker_id: int
    authorization: Authorization


def handle(
    needs: Needs, request: FindCoordinatorRequest, caller: Caller
) -> FindCoordinatorResponse:
    rights = needs.authorization.of(caller)

    def coordinator(key: str) -> Coordinator:
        return _coordinator(needs, rights, caller.listener, request.key_type, key)

    found = [coordinator(key) for key in request.coordinator_keys]
    only = coordinator(request.key)
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
        coordinators=tuple(found),
    )


def _coordinator(
    needs: Needs, rights: Rights, listener: str, key_type: int, key: str
) -> Coordinator:
    if key_type == TRANSACTION:
        return _none(key, ErrorCode.transactional_id_authorization_failed, _NO_TRANSACTIONS)
    if key_type != GROUP:
        return _none(key, ErrorCode.invalid_request, f"key type {key_type} is not known")
    try:
        rights.check(Operation.DESCRIBE, ResourceType.GROUP, key)
    except ApiError as error:
        return _none(key, error.code, error.message)
    this = needs.cluster.snapshot.brokers.get(needs.broker_id)
    address = this and this.reached_by(listener)
    if not this or not address:
        return _none(key, ErrorCode.coordinator_not_available, "this broker is not registered")
    return Coordinator(key=key, node_id=this.broker_id, host=address[0], port=address[1])


def _none(key: str, code: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, error_code=code, error_message=message)
