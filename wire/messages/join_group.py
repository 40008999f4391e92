"""JoinGroup (key 11): adds a member to a group, and returns the generation.

The response waits until all members have asked. The leader's lists all members and their metadata;
the others' lists none.

Version differences are hidden from handlers: version 0 has no rebalance timeout, and uses the
session's; versions before 7 have an empty protocol name instead of null; two fields that are not on
the wire say what a client of that version understands.
"""

from msgspec import Struct
from msgspec.structs import replace

from wire.errors import ErrorCode
from wire.framing.codec import Api

UNKNOWN_MEMBER_ID = ""  # before the coordinator has assigned one


class JoinGroupRequestProtocol(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    metadata: bytes


class JoinGroupRequest(Struct, frozen=True, kw_only=True, gc=False):
    group_id: str
    session_timeout: int
    rebalance_timeout: int = -1
    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None
    protocol_type: str
    protocols: tuple[JoinGroupRequestProtocol, ...]
    reason: str | None = None
    understands_member_id_required: bool = False
    """Whether it retries with the id that came with MEMBER_ID_REQUIRED (KIP-394)."""
    understands_skip_assignment: bool = False
    """Whether, as the leader, it skips the assignment on request (KIP-814)."""


class JoinGroupResponseMember(Struct, frozen=True, kw_only=True, gc=False):
    member_id: str
    group_instance_id: str | None = None
    metadata: bytes


class JoinGroupResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    error_code: ErrorCode = ErrorCode.none
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = UNKNOWN_MEMBER_ID
    members: tuple[JoinGroupResponseMember, ...] = ()


class _JoinGroupApi(Api[JoinGroupRequest, JoinGroupResponse]):
    def levelled(self, version: int, request: JoinGroupRequest) -> JoinGroupRequest:
        return replace(
            request,
            rebalance_timeout=request.rebalance_timeout if version else request.session_timeout,
            understands_member_id_required=version >= 4,
            understands_skip_assignment=version >= 9,
        )

    def lowered(self, version: int, response: JoinGroupResponse) -> JoinGroupResponse:
        if version < 7 and response.protocol_name is None:
            response = replace(response, protocol_name="")
        return response


API = _JoinGroupApi(
    key=11,
    name="JoinGroup",
    versions=range(10),
    request=JoinGroupRequest,
    response=JoinGroupResponse,
)
