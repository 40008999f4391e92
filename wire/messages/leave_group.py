"""LeaveGroup (key 13): removes members from a group, at their own or an administrator's request.

Up to version 2 one member leaves, and its error is that of the response; from version 3 any number,
each with its own error. That is hidden from handlers: requests always have `members`, and so have
responses.
"""

from msgspec import Struct
from msgspec.structs import replace

from wire.errors import ErrorCode
from wire.framing.codec import Api
from wire.framing.primitives import MessageBuffer

_FIRST_OF_SEVERAL = 3


class MemberIdentity(Struct, frozen=True, kw_only=True, gc=False):
    member_id: str = ""
    """Empty if only the instance is known, as in an operator's request."""
    group_instance_id: str | None = None
    reason: str | None = None


class LeaveGroupRequest(Struct, frozen=True, kw_only=True, gc=False):
    group_id: str
    member_id: str = ""
    members: tuple[MemberIdentity, ...] = ()


class MemberResponse(Struct, frozen=True, kw_only=True, gc=False):
    member_id: str
    group_instance_id: str | None = None
    error_code: ErrorCode = ErrorCode.none


class LeaveGroupResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    error_code: ErrorCode = ErrorCode.none
    members: tuple[MemberResponse, ...] = ()


class _LeaveGroupApi(Api[LeaveGroupRequest, LeaveGroupResponse]):
    def levelled(self, version: int, request: LeaveGroupRequest) -> LeaveGroupRequest:
        if version < _FIRST_OF_SEVERAL:
            return replace(request, members=(MemberIdentity(member_id=request.member_id),))
        return request

    def encode_request(self, version: int, request: LeaveGroupRequest) -> MessageBuffer:
        if version < _FIRST_OF_SEVERAL and request.members:
            (member,) = request.members
            request = replace(request, member_id=member.member_id)
        return super().encode_request(version, request)

    def lowered(self, version: int, response: LeaveGroupResponse) -> LeaveGroupResponse:
        if version < _FIRST_OF_SEVERAL and response.members and not response.error_code:
            (member,) = response.members
            response = replace(response, error_code=member.error_code)
        return response


API = _LeaveGroupApi(
    key=13,
    name="LeaveGroup",
    versions=range(6),
    request=LeaveGroupRequest,
    response=LeaveGroupResponse,
)
