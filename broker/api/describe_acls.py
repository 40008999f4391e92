"""DescribeAcls (key 29), versions 1–3.

Returns the ACLs in force on this broker that match a filter. Without `authorization:` in its
configuration, the broker answers SECURITY_DISABLED. Needs DESCRIBE on the cluster.

Not here: version 0, which has no prefixes.
"""

import msgspec

from broker.access.authorization import Authorization
from broker.admin.acls import AclAdmin, check_is_on, understood_filter
from broker.connections.caller import Caller
from broker.errors import ApiError
from wire.acls import Operation
from wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


class Needs(msgspec.Struct, frozen=True):
    admin: AclAdmin
    authorization: Authorization


def handle(needs: Needs, request: DescribeAclsRequest, caller: Caller) -> DescribeAclsResponse:
    try:
        needs.authorization.of(caller).check_cluster(Operation.DESCRIBE)
        check_is_on(needs.authorization.is_on)
        acl_filter = understood_filter(request)
    except ApiError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.message)
    return DescribeAclsResponse(
        resources=tuple(
            DescribeAclsResource(
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
                acls=tuple(
                    AclDescription(
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission,
                    )
                    for acl in acls
                ),
            )
            for pattern, acls in sorted(acl_filter.found(needs.admin.acls).items())
        )
    )
