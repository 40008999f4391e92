"""Heartbeat (key 12): keeps a member alive, and informs it of a rebalance."""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class HeartbeatRequest(Struct, frozen=True, kw_only=True, gc=False):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


class HeartbeatResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    error_code: ErrorCode = ErrorCode.none


API = Api(
    key=12,
    name="Heartbeat",
    versions=range(5),
    request=HeartbeatRequest,
    response=HeartbeatResponse,
)
