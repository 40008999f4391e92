"""DeleteGroups (key 42), versions 0–2: deletes groups without members, and their offsets."""

from broker.access.authorization import Rights
from broker.api.group_requests import REFUSED, Needs, refuses
from broker.connections.caller import Caller
from broker.errors import ApiError
from broker.groups.client_fairness import Client, client_of
from wire.acls import Operation
from wire.errors import ErrorCode
from wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


async def handle(
    needs: Needs, request: DeleteGroupsRequest, caller: Caller
) -> DeleteGroupsResponse:
    rights, client = needs.authorization.of(caller), client_of(caller)
    results = [
        DeletableGroupResult(group_id=name, error_code=await _delete(needs, rights, name, client))
        for name in dict.fromkeys(request.groups_names)
    ]
    return DeleteGroupsResponse(results=tuple(results))


async def _delete(needs: Needs, rights: Rights, name: str, client: Client) -> ErrorCode:
    if refuses(rights, Operation.DELETE, name):
        return REFUSED
    try:
        return await needs.groups.delete(name, client)
    except ApiError as error:
        return error.code
