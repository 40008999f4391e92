"""DescribeGroups (key 15), versions 0–5.

A group that does not exist is reported as Dead, as by Kafka up to 3.9.
"""

from broker.access.authorization import Rights
from broker.api.group_requests import REFUSED, Needs, refuses
from broker.connections.caller import Caller
from broker.errors import ApiError
from broker.groups.client_fairness import Client, client_of
from wire.acls import Operation, ResourceType
from wire.messages.describe_groups import (
    NOT_ASKED,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


async def handle(
    needs: Needs, request: DescribeGroupsRequest, caller: Caller
) -> DescribeGroupsResponse:
    rights = needs.authorization.of(caller)
    asks_for_operations = request.include_authorized_operations
    client = client_of(caller)
    groups = [
        await _described(needs, rights, name, client, asks=asks_for_operations)
        for name in request.groups
    ]
    return DescribeGroupsResponse(groups=tuple(groups))


async def _described(
    needs: Needs, rights: Rights, name: str, client: Client, *, asks: bool
) -> DescribedGroup:
    if refuses(rights, Operation.DESCRIBE, name):
        return DescribedGroup(group_id=name, error_code=REFUSED)
    try:
        group = await needs.groups.describe(name, client)
    except ApiError as error:
        return DescribedGroup(group_id=name, error_code=error.code)
    return DescribedGroup(
        group_id=name,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=tuple(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ),
        authorized_operations=rights.operations(ResourceType.GROUP, name) if asks else NOT_ASKED,
    )
