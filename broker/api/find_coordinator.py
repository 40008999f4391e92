"""FindCoordinator (key 10), versions 0–4.

A group's coordinator is computed from the live brokers (`broker.groups.placement`), so every broker
names the same one once its map is up to date. The answer has its address on the listener that the
client uses.

Transactions have no coordinator here, and the client must be told so for good: clients silently
retry after retriable errors such as COORDINATOR_NOT_AVAILABLE. UNSUPPORTED_VERSION ends that, and
Java clients show our message. librdkafka retries after anything but
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, and shows the message with that: so it gets that code.
"""

import msgspec

from broker.access.authorization import Authorization, Rights
from broker.connections.caller import Caller
from broker.errors import ApiError
from broker.groups.coordinator import Coordinator
from cluster.view import ClusterView
from wire.acls import Operation, ResourceType
from wire.errors import ErrorCode
from wire.messages.find_coordinator import (
    GROUP,
    TRANSACTION,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from wire.messages.find_coordinator import Coordinator as Found

_NO_TRANSACTIONS = (
    "this broker does not support transactions; idempotent producers need no transactional id"
)


class Needs(msgspec.Struct, frozen=True):
    cluster: ClusterView
    groups: Coordinator
    authorization: Authorization


def handle(
    needs: Needs, request: FindCoordinatorRequest, caller: Caller
) -> FindCoordinatorResponse:
    rights = needs.authorization.of(caller)

    def coordinator(key: str) -> Found:
        if request.key_type == TRANSACTION:
            return _unavailable(key, without_transactions(caller), _NO_TRANSACTIONS)
        return _coordinator(needs, rights, caller.listener, request.key_type, key)

    coordinators = [coordinator(key) for key in request.coordinator_keys]
    first_coordinator = coordinators[0] if coordinators else coordinator(request.key)
    return FindCoordinatorResponse(
        error_code=first_coordinator.error_code,
        error_message=first_coordinator.error_message,
        node_id=first_coordinator.node_id,
        host=first_coordinator.host,
        port=first_coordinator.port,
        coordinators=tuple(coordinators),
    )


def without_transactions(caller: Caller) -> ErrorCode:
    """Returns an error that this client treats as fatal, for a request about transactions, which
    are not supported."""
    if caller.is_librdkafka:
        return ErrorCode.transactional_id_authorization_failed
    return ErrorCode.unsupported_version


def _coordinator(needs: Needs, rights: Rights, listener: str, key_type: int, key: str) -> Found:
    if key_type != GROUP:
        return _unavailable(key, ErrorCode.invalid_request, f"unknown key type {key_type}")
    try:
        rights.check(Operation.DESCRIBE, ResourceType.GROUP, key)
    except ApiError as error:
        return _unavailable(key, error.code, error.message)
    broker_id = needs.groups.coordinator_of(key)
    broker = None if broker_id is None else needs.cluster.snapshot.brokers.get(broker_id)
    address = broker and broker.reached_by(listener)
    if not broker or not address:
        return _unavailable(
            key, ErrorCode.coordinator_not_available, "no broker is available to coordinate it"
        )
    return Found(key=key, node_id=broker.broker_id, host=address[0], port=address[1])


def _unavailable(key: str, code: ErrorCode, message: str) -> Found:
    return Found(key=key, error_code=code, error_message=message)
