"""Heartbeat (key 12), versions 0–4."""

from broker.api.group_requests import REFUSED, Needs
from broker.connections.caller import Caller
from broker.errors import ApiError
from wire.acls import Operation
from wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


async def handle(needs: Needs, request: HeartbeatRequest, caller: Caller) -> HeartbeatResponse:
    if needs.refuses(caller, Operation.READ, request.group_id):
        return HeartbeatResponse(error_code=REFUSED)
    try:
        code = await needs.groups.heartbeat(
            request.group_id, request.member_id, request.group_instance_id, request.generation_id
        )
    except ApiError as error:
        code = error.code
    return HeartbeatResponse(error_code=code)
