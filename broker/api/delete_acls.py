"""DeleteAcls (key 31), versions 1–3.

Removes and returns the ACLs that each filter matches; a filter without a match is no error. Removed
ACLs are no longer in force on this broker when it answers, and on the others within a second. Needs
ALTER on the cluster.

Not here: version 0, which has no prefixes.
"""

from typing import Final

import msgspec

from broker.access.authorization import Authorization
from broker.admin.acls import AclAdmin, by_pattern, check_is_on, understood_filter
from broker.connections.caller import Caller
from broker.errors import ApiError
from wire.acls import Acl, Operation, ResourcePattern
from wire.errors import ErrorCode
from wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

MOST_FILTERS: Final = 100  # each is compared with every ACL
_Taken = list[tuple[ResourcePattern, Acl]]


class Needs(msgspec.Struct, frozen=True):
    admin: AclAdmin
    authorization: Authorization


async def handle(needs: Needs, request: DeleteAclsRequest, caller: Caller) -> DeleteAclsResponse:
    try:
        needs.authorization.of(caller).check_cluster(Operation.ALTER)
        check_is_on(needs.authorization.is_on)
    except ApiError as error:
        refusal_result = DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
        return DeleteAclsResponse(filter_results=(refusal_result,) * len(request.filters))
    if len(request.filters) > MOST_FILTERS:
        refusal_result = DeleteAclsFilterResult(
            error_code=ErrorCode.invalid_request,
            error_message=f"{len(request.filters)} filters, at most {MOST_FILTERS} are allowed",
        )
        return DeleteAclsResponse(filter_results=(refusal_result,) * len(request.filters))
    results = [_taken(needs.admin, acl_filter) for acl_filter in request.filters]
    acls_by_pattern = by_pattern(
        rule for match in results if not isinstance(match, ApiError) for rule in match
    )
    errors = await needs.admin.remove(acls_by_pattern, caller)
    return DeleteAclsResponse(filter_results=tuple(_result(match, errors) for match in results))


def _taken(admin: AclAdmin, asked: DeleteAclsFilter) -> _Taken | ApiError:
    try:
        acl_filter = understood_filter(asked)
    except ApiError as error:
        return error
    matching_acls = sorted(acl_filter.found(admin.acls).items())
    return [(pattern, acl) for pattern, acls in matching_acls for acl in acls]


def _result(
    removed: _Taken | ApiError, failed: dict[ResourcePattern, ApiError]
) -> DeleteAclsFilterResult:
    if isinstance(removed, ApiError):
        return DeleteAclsFilterResult(error_code=removed.code, error_message=removed.message)
    matching_acls = []
    for pattern, acl in removed:
        error = failed.get(pattern)
        matching_acls.append(
            DeleteAclsMatchingAcl(
                error_code=error.code if error else ErrorCode.none,
                error_message=error.message if error else None,
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
        )
    return DeleteAclsFilterResult(matching_acls=tuple(matching_acls))
