"""What clients are told when ZooKeeper does not do what a coordinator wants of it."""

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
    """Clients look for the coordinator again, but where that does not help."""
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
    """The group is one of Penstock's own consumers: nobody joins it here, and nobody coordinates
    it."""


def told(error: ClusterError) -> ApiError:
    kind = OfClaims if isinstance(error, OtherGroupKind) else ApiError
    return kind(code_of(error), str(error))
