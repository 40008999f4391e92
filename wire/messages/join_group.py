"""JoinGroup (key 11): a member asks to belong to a group, and is told who else does.

The answer waits until all members have asked. The leader's says what each of them brought with it;
the others' lists nobody.

Differences between versions are levelled, so that no handler meets them: version 0 says no
rebalance time-out, and means the session's; the versions before 7 have no null for the protocol's
name, and are told an empty one; what a client of that version understands is said by two fields
that do not travel. Left out: nothing.
"""

from msgspec import Struct
from msgspec.structs import replace

from wire.codec import Api
from wire.errors import ErrorCode

UNKNOWN_MEMBER_ID = ""  # of who has not been given one yet


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
    """Whether it comes again, with the id that it was told with MEMBER_ID_REQUIRED (KIP-394)."""
    understands_skip_assignment: bool = False
    """Whether, as the leader, it computes no assignment when it is told so (KIP-814)."""


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
