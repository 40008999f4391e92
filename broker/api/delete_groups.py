"""DeleteGroups (key 42), versions 0–2.

There are no groups here: GROUP_ID_NOT_FOUND, whichever is asked for. Served because librdkafka 2
aborts its process where a coordinator is found and this is not served.
"""

from broker.authorization import Authorization
from broker.caller import Caller
from wire.acls import Operation, ResourceType
from wire.errors import ErrorCode
from wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def handle(
    authorization: Authorization, request: DeleteGroupsRequest, caller: Caller
) -> DeleteGroupsResponse:
    rights = authorization.of(caller)

    def why_not(name: str) -> ErrorCode:
        if rights.refuses(Operation.DELETE, ResourceType.GROUP, name):
            return ErrorCode.group_authorization_failed
        return ErrorCode.group_id_not_found

    return DeleteGroupsResponse(
        results=tuple(
            DeletableGroupResult(group_id=name, error_code=why_not(name))
            for name in dict.fromkeys(request.groups_names)
        )
    )
