"""ListGroups (key 16), versions 0–4.

Lists the groups that this broker coordinates: clients ask all brokers for those of a cluster. A
client that may not describe the cluster gets the groups that it may describe.
"""

from broker.api.group_requests import Needs
from broker.connections.caller import Caller
from broker.errors import ApiError
from broker.groups.client_fairness import client_of
from wire.acls import Operation, ResourceType
from wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


async def handle(needs: Needs, request: ListGroupsRequest, caller: Caller) -> ListGroupsResponse:
    rights = needs.authorization.of(caller)
    try:
        groups = await needs.groups.listed(client_of(caller))
    except ApiError as error:
        return ListGroupsResponse(error_code=error.code)
    sees_all = rights.may_on_cluster(Operation.DESCRIBE)
    return ListGroupsResponse(
        groups=tuple(
            ListedGroup(group_id=name, protocol_type=protocol_type, group_state=state.value)
            for name, protocol_type, state in groups
            if (not request.states_filter or state.value in request.states_filter)
            and (sees_all or rights.may(Operation.DESCRIBE, ResourceType.GROUP, name))
        )
    )
