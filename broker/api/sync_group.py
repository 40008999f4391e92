"""SyncGroup (key 14), versions 0–5.

The answer waits until the leader's assignment is durable.
"""

from broker.api.group_requests import REFUSED, Needs
from broker.connections.caller import Caller
from broker.errors import ApiError
from broker.groups.membership.values import Syncing
from wire.acls import Operation
from wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


async def handle(needs: Needs, request: SyncGroupRequest, caller: Caller) -> SyncGroupResponse:
    if needs.refuses(caller, Operation.READ, request.group_id):
        return SyncGroupResponse(error_code=REFUSED)
    syncing = Syncing(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments=tuple(
            (assignment.member_id, bytes(assignment.assignment))
            for assignment in request.assignments
        ),
    )
    try:
        outcome = await needs.groups.sync(request.group_id, syncing)
    except ApiError as error:
        return SyncGroupResponse(error_code=error.code)
    return SyncGroupResponse(
        error_code=outcome.code,
        protocol_type=outcome.protocol_type,
        protocol_name=outcome.protocol,
        assignment=outcome.assignment,
    )
