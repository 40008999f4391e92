"""Maps ZooKeeper errors of a coordinator to the error codes for clients."""

from broker.errors import ApiError
from cluster.errors import (
    ClusterError,
    Fenced,
    GroupTooLarge,
    InvalidGroupName,
    NodeUnreadable,
    OtherGroupKind,
)
from wire.errors import ErrorCode


def code_of(error: ClusterError) -> ErrorCode:
    """Returns the code for an error. NOT_COORDINATOR makes clients look for another coordinator, so
    it is used only where that may help."""
    match error:
        case Fenced():
            return ErrorCode.not_coordinator
        case OtherGroupKind():
            return ErrorCode.inconsistent_group_protocol
        case InvalidGroupName():
            return ErrorCode.invalid_group_id
        case GroupTooLarge() | NodeUnreadable():
            return ErrorCode.unknown_server_error
        case _:
            return ErrorCode.coordinator_not_available


class OfClaims(ApiError):
    """Raised when a group belongs to Penstock's own consumers, so it cannot be joined, and has no
    coordinator."""


def told(error: ClusterError) -> ApiError:
    kind = OfClaims if isinstance(error, OtherGroupKind) else ApiError
    return kind(code_of(error), str(error))
