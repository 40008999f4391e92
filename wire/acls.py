"""What an ACL is: who may or may not do what, from where, to which resources; in Kafka's words.

An ACL stands on a pattern: a kind of resource, and a name that is meant literally (`*` is every
name), or as the beginning of names. It is for one principal, `User:alice`, or for all, `User:*`;
from one address, or from all, `*`; for one operation, or ALL. It allows or denies.

The codes are those of the protocol; `words` are those of Kafka's nodes in ZooKeeper and of its
tools. Values only: what they come to is `broker.permissions`, where they stand is `cluster.acls`.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

import msgspec

ANYTHING: Final = "*"
"""As the name of a literal pattern, and as a host."""
THE_CLUSTER: Final = "kafka-cluster"
"""The name of the one resource of kind CLUSTER."""
USER: Final = "User:"
EVERYBODY: Final = "User:*"


class _Word(IntEnum):
    @property
    def words(self) -> str:
        """As Kafka writes it: `DescribeConfigs`."""
        return "".join(part.capitalize() for part in self.name.split("_"))


class ResourceType(_Word):
    """What there are ACLs for. ANY is for filters alone."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Word):
    """How a pattern's name is meant. The first two are for filters alone: MATCH is every pattern
    that a resource of this name falls under."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(_Word):
    """What can be done. ANY is for filters alone."""

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
    """ANY is for filters alone."""

    ANY = 1
    DENY = 2
    ALLOW = 3


RESOURCE_TYPES: Final = tuple(each for each in ResourceType if each is not ResourceType.ANY)
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
"""What can be done to which kind of resource, beside ALL."""


class ResourcePattern(msgspec.Struct, frozen=True, order=True):
    """What an ACL stands on."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def covers(self, name: str) -> bool:
        """Whether a resource of this kind and that name falls under it."""
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in {name, ANYTHING}


class Acl(msgspec.Struct, frozen=True, order=True):
    """One rule, wherever it stands."""

    principal: str
    host: str
    operation: Operation
    permission: Permission


Acls = Mapping[ResourcePattern, tuple[Acl, ...]]
"""All that there are."""


class AclFilter(msgspec.Struct, frozen=True):
    """Which ACLs are meant; None and ANY stand for all."""

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
        """Whether it takes an ACL that stands on a pattern it takes."""
        return (
            self.principal in {None, acl.principal}
            and self.host in {None, acl.host}
            and self.operation in {Operation.ANY, acl.operation}
            and self.permission in {Permission.ANY, acl.permission}
        )

    def found(self, acls: Acls) -> dict[ResourcePattern, tuple[Acl, ...]]:
        """Those it takes, by the pattern that they stand on."""
        taken = {
            pattern: tuple(acl for acl in standing if self.takes(acl))
            for pattern, standing in acls.items()
            if self.takes_pattern(pattern)
        }
        return {pattern: standing for pattern, standing in taken.items() if standing}


def count(acls: Iterable[tuple[Acl, ...]]) -> int:
    return sum(map(len, acls))


def principal_named(name: str) -> str:
    """`alice`, and `User:alice`, as ACLs have it."""
    return name if name.startswith(USER) else USER + name
