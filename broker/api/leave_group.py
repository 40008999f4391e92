"""LeaveGroup (key 13), versions 0–5."""

from broker.api.group_requests import REFUSED, Needs
from broker.connections.caller import Caller
from broker.errors import ApiError
from broker.groups.membership.values import Leaving
from wire.acls import Operation
from wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse


async def handle(needs: Needs, request: LeaveGroupRequest, caller: Caller) -> LeaveGroupResponse:
    if needs.refuses(caller, Operation.READ, request.group_id):
        return LeaveGroupResponse(error_code=REFUSED)
    leaving_members = [
        Leaving(
            member_id=member.member_id, instance_id=member.group_instance_id, reason=member.reason
        )
        for member in request.members
    ]
    try:
        outcome = await needs.groups.leave(request.group_id, leaving_members)
    except ApiError as error:
        return LeaveGroupResponse(error_code=error.code)
    return LeaveGroupResponse(
        error_code=outcome.code,
        members=tuple(
            MemberResponse(
                member_id=member.member_id, group_instance_id=member.instance_id, error_code=code
            )
            for member, code in zip(leaving_members, outcome.codes, strict=bool(outcome.codes))
        ),
    )
