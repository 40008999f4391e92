"""The rights in the how-to on Apache Kafka: each row of its table is one ACL."""

import re
from typing import Final, NamedTuple

from client.admin.acls import Rule
from tests.system.kafka.page import PAGE
from wire.acls import (
    ANYTHING,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    principal_named,
)

_ROW: Final = re.compile(
    r"\| `(?P<user>\w+)` \| (?P<operation>[A-Z_]+) \| (?P<kind>topic|group) `(?P<name>[\w.-]+)` "
    r"\| (?P<pattern>literal|prefixed) \| (?P<without>[^|]+) \|"
)


class Right(NamedTuple):
    """A permission of a user."""

    user: str
    operation: Operation
    pattern: ResourcePattern

    @property
    def key(self) -> tuple[str, str, str]:
        return self.user, self.operation.name, self.pattern.name

    @property
    def rule(self) -> Rule:
        acl = Acl(principal_named(self.user), ANYTHING, self.operation, Permission.ALLOW)
        return self.pattern, acl

    def said_of(self, name: str = "") -> str:
        """The message of a program that lacks it, about a resource that matches the pattern."""
        kind = self.pattern.resource_type.name.lower()
        on = name or self.pattern.name
        return f"not allowed: User:{self.user} needs {self.operation.name} on {kind} {on}"

    def on(self, name: str) -> "Right":
        """The same right on another resource, by its literal name."""
        return self._replace(pattern=ResourcePattern(self.pattern.resource_type, name))


def rights_of_the_page() -> tuple[Right, ...]:
    rows = [each for line in PAGE.read_text().splitlines() if (each := _ROW.fullmatch(line))]
    return tuple(
        Right(
            row["user"],
            Operation[row["operation"]],
            ResourcePattern(
                ResourceType[row["kind"].upper()],
                row["name"],
                PatternType[row["pattern"].upper()],
            ),
        )
        for row in rows
    )


RIGHTS: Final = rights_of_the_page()
USERS: Final = tuple(dict.fromkeys(each.user for each in RIGHTS))
