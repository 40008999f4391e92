"""DeleteGroups (key 42), versions 0–2.

There are no groups here: GROUP_ID_NOT_FOUND, whichever is asked for. Served because librdkafka 2
aborts its process where a coordinator is found and this is not served.
"""

from broker.caller import Caller
from wire.errors import ErrorCode
from wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def handle(_nothing: None, request: DeleteGroupsRequest, _caller: Caller) -> DeleteGroupsResponse:
    not_found = ErrorCode.group_id_not_found
    return DeleteGroupsResponse(
        results=tuple(
            DeletableGroupResult(group_id=name, error_code=not_found)
            for name in dict.fromkeys(request.groups_names)
        )
    )
