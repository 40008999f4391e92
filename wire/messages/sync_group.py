"""SyncGroup (key 14): takes the members' assignments from the leader, and returns each member its
own."""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class SyncGroupRequestAssignment(Struct, frozen=True, kw_only=True, gc=False):
    member_id: str
    assignment: bytes


class SyncGroupRequest(Struct, frozen=True, kw_only=True, gc=False):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()


class SyncGroupResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    error_code: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


API = Api(
    key=14,
    name="SyncGroup",
    versions=range(6),
    request=SyncGroupRequest,
    response=SyncGroupResponse,
)
