"""FindCoordinator (key 10), versions 0–4.

Nobody coordinates groups or transactions here: COORDINATOR_NOT_AVAILABLE, for every key asked for.
Consumers that are assigned their partitions never ask.
"""

from typing import TYPE_CHECKING

from broker.caller import Caller
from wire.errors import ErrorCode
from wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from broker.broker import Broker

_NONE = "this broker does not coordinate groups or transactions"


def handle(
    _broker: "Broker", request: FindCoordinatorRequest, _caller: Caller
) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=ErrorCode.coordinator_not_available,
        error_message=_NONE,
        coordinators=tuple(
            Coordinator(
                key=key, error_code=ErrorCode.coordinator_not_available, error_message=_NONE
            )
            for key in request.coordinator_keys
        ),
    )
