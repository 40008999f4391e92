"""CreateAcls (key 30), versions 1–3.

Each rule is added on its own: a rejected rule does not affect the others. Adding a rule that exists
is no error. Rules are in force on this broker when it answers, and on the others within a second.
Needs ALTER on the cluster.

Not here: version 0, which has no prefixes. Whether an operation applies to that kind of resource is
not checked, as in Kafka.
"""

import msgspec

from broker.access.authorization import Authorization
from broker.admin.acls import AclAdmin, by_pattern, check_is_on, understood_rule
from broker.connections.caller import Caller
from broker.errors import ApiError
from wire.acls import Acl, Operation, ResourcePattern
from wire.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)


class Needs(msgspec.Struct, frozen=True):
    admin: AclAdmin
    authorization: Authorization


async def handle(needs: Needs, request: CreateAclsRequest, caller: Caller) -> CreateAclsResponse:
    try:
        needs.authorization.of(caller).check_cluster(Operation.ALTER)
        check_is_on(needs.authorization.is_on)
    except ApiError as error:
        refusal_result = AclCreationResult(error_code=error.code, error_message=error.message)
        return CreateAclsResponse(results=(refusal_result,) * len(request.creations))
    rules = [_understood(creation) for creation in request.creations]
    acls_by_pattern = by_pattern(rule for rule in rules if not isinstance(rule, ApiError))
    errors = await needs.admin.add(acls_by_pattern, caller)
    results = []
    for rule in rules:
        refusal = rule if isinstance(rule, ApiError) else errors.get(rule[0])
        results.append(
            AclCreationResult()
            if refusal is None
            else AclCreationResult(error_code=refusal.code, error_message=refusal.message)
        )
    return CreateAclsResponse(results=tuple(results))


def _understood(creation: AclCreation) -> tuple[ResourcePattern, Acl] | ApiError:
    try:
        return understood_rule(creation)
    except ApiError as error:
        return error
