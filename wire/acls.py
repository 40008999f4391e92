"""ACLs, in Kafka's terms: principals, operations, hosts and resources.

An ACL belongs to a pattern: a resource type, and a name that is literal (`*` matches every name) or
a prefix. It applies to one principal, `User:alice`, or to all, `User:*`; to one host, or all, `*`;
to one operation, or ALL. It allows or denies.

The codes are the protocol's; `words` are those of Kafka's ZooKeeper nodes and tools. Values only:
`broker.access.acl_evaluation` evaluates them, `cluster.records.acls` stores them.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

import msgspec

ANYTHING: Final = "*"
"""The name of a literal pattern for all names; also the host for all hosts."""
THE_CLUSTER: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""
USER: Final = "User:"
EVERYBODY: Final = "User:*"


class _Word(IntEnum):
    @property
    def words(self) -> str:
        """Kafka's spelling of the name: `DescribeConfigs`."""
        return "".join(part.capitalize() for part in self.name.split("_"))


class ResourceType(_Word):
    """The types of resources. ANY is only for filters."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Word):
    """The interpretation of a pattern's name. ANY and MATCH are only for filters: MATCH selects
    every pattern that covers a resource of this name."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(_Word):
    """The operations. ANY is only for filters."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class Permission(_Word):
    """Whether an ACL allows or denies. ANY is only for filters."""

    ANY = 1
    DENY = 2
    ALLOW = 3


RESOURCE_TYPES: Final = tuple(kind for kind in ResourceType if kind is not ResourceType.ANY)
PATTERN_TYPES: Final = (PatternType.LITERAL, PatternType.PREFIXED)

OPERATIONS_ON: Final[Mapping[ResourceType, tuple[Operation, ...]]] = MappingProxyType(
    {
        ResourceType.TOPIC: (
            Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER,
            Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
        ),
        ResourceType.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE),
        ResourceType.CLUSTER: (
            Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION,
            Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE,
        ),
        ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
        ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
        ResourceType.USER: (Operation.CREATE, Operation.DESCRIBE),
    }
)  # fmt: skip
"""The operations on each resource type, besides ALL."""


class ResourcePattern(msgspec.Struct, frozen=True, order=True):
    """The resources that an ACL applies to."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def covers(self, name: str) -> bool:
        """Returns whether the pattern covers the resource of this name."""
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in {name, ANYTHING}


class Acl(msgspec.Struct, frozen=True, order=True):
    """One rule for a principal and a host, without its pattern."""

    principal: str
    host: str
    operation: Operation
    permission: Permission


Acls = Mapping[ResourcePattern, tuple[Acl, ...]]
"""All ACLs by pattern."""


class AclFilter(msgspec.Struct, frozen=True):
    """Selects ACLs; None and ANY match all."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def takes_pattern(self, pattern: ResourcePattern) -> bool:
        if self.resource_type not in {ResourceType.ANY, pattern.resource_type}:
            return False
        if self.pattern_type in PATTERN_TYPES and self.pattern_type is not pattern.pattern_type:
            return False
        if self.name is None:
            return True
        if self.pattern_type is PatternType.MATCH:
            return pattern.covers(self.name)
        return self.name == pattern.name

    def takes(self, acl: Acl) -> bool:
        """Returns whether the filter matches the ACL, whose pattern `takes_pattern` checks."""
        return (
            self.principal in {None, acl.principal}
            and self.host in {None, acl.host}
            and self.operation in {Operation.ANY, acl.operation}
            and self.permission in {Permission.ANY, acl.permission}
        )

    def found(self, acls: Acls) -> dict[ResourcePattern, tuple[Acl, ...]]:
        """Returns the matching ACLs by pattern."""
        acls_by_pattern = {
            pattern: tuple(acl for acl in rules if self.takes(acl))
            for pattern, rules in acls.items()
            if self.takes_pattern(pattern)
        }
        return {pattern: rules for pattern, rules in acls_by_pattern.items() if rules}


def count(acls: Iterable[tuple[Acl, ...]]) -> int:
    return sum(map(len, acls))


def principal_named(name: str) -> str:
    """Returns `User:alice` for `alice` and for `User:alice`."""
    return name if name.startswith(USER) else USER + name
