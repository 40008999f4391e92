"""JoinGroup (key 11), versions 0–9.

The answer waits until the generation begins; if the client disconnects before, the group is told.
"""

from typing import Final

from broker.api.group_requests import REFUSED, Needs
from broker.connections.caller import Caller
from broker.errors import ApiError
from broker.groups.client_fairness import client_of
from broker.groups.membership.values import Joining, Protocol
from wire.acls import Operation
from wire.errors import ErrorCode
from wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

_LONGEST_CLIENT_ID: Final = 255  # the part of a member id that comes from the client id
_LONGEST_INSTANCE_ID: Final = 249  # as in Kafka's own client


async def handle(needs: Needs, request: JoinGroupRequest, caller: Caller) -> JoinGroupResponse:
    member_id = request.member_id
    if needs.refuses(caller, Operation.READ, request.group_id):
        return JoinGroupResponse(error_code=REFUSED, member_id=member_id)
    if len(request.group_instance_id or "") > _LONGEST_INSTANCE_ID:
        return JoinGroupResponse(error_code=ErrorCode.invalid_request, member_id=member_id)
    joining = Joining(
        member_id=member_id,
        instance_id=request.group_instance_id,
        client_id=(caller.client_id or "")[:_LONGEST_CLIENT_ID],
        client_host=f"/{caller.host}",  # as Kafka's tools display it
        session_timeout=request.session_timeout / 1000,
        rebalance_timeout=request.rebalance_timeout / 1000,
        protocol_type=request.protocol_type,
        protocols=tuple(
            Protocol(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols
        ),
        needs_member_id=request.understands_member_id_required,
        may_skip_assignment=request.understands_skip_assignment,
        reason=request.reason,
    )
    try:
        outcome = await needs.groups.join(request.group_id, joining, client_of(caller))
    except ApiError as error:
        return JoinGroupResponse(error_code=error.code, member_id=member_id)
    return JoinGroupResponse(
        error_code=outcome.code,
        generation_id=outcome.generation,
        protocol_type=outcome.protocol_type,
        protocol_name=outcome.protocol,
        leader=outcome.leader,
        skip_assignment=outcome.skip_assignment,
        member_id=outcome.member_id,
        members=tuple(
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in outcome.members
        ),
    )
