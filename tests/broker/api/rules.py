"""ACLs for those who do not log in, and for everybody."""

from wire.acls import (
    RESOURCE_TYPES,
    THE_CLUSTER,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
ALLOW = Permission.ALLOW
ME = "User:ANONYMOUS"
Rules = list[tuple[ResourcePattern, Acl]]
EVERYTHING: Rules = [
    (ResourcePattern(kind, THE_CLUSTER if kind is CLUSTER else "*"),
     Acl("User:*", "*", Operation.ALL, ALLOW))
    for kind in RESOURCE_TYPES
]  # fmt: skip


def rule(
    operation: Operation,
    kind: ResourceType = TOPIC,
    name: str = "*",
    permission: Permission = ALLOW,
    *,
    principal: str = ME,
    host: str = "*",
    pattern_type: PatternType = PatternType.LITERAL,
) -> tuple[ResourcePattern, Acl]:
    pattern = ResourcePattern(kind, THE_CLUSTER if kind is CLUSTER else name, pattern_type)
    return pattern, Acl(principal, host, operation, permission)
