"""The rights that requests need, as messages name them when an ACL is missing.

A right is one operation, or any of several, on a resource. The client is named as in ACLs if that
is known here; the principal for a certificate is determined by the brokers.
"""

from typing import Final

import msgspec

from wire.acls import Operation, ResourceType

TO_SEE: Final = (Operation.DESCRIBE, Operation.READ, Operation.WRITE)
"""Any of these makes a topic visible."""


class Right(msgspec.Struct, frozen=True):
    """One of `operations` on the named resource; without a name, on any resource of the type.
    `creates` adds CREATE, if the resource does not exist."""

    who: str
    operations: tuple[Operation, ...]
    resource_type: ResourceType
    name: str = ""
    creates: bool = False

    def __str__(self) -> str:
        *other_names, last_name = (operation.name for operation in self.operations)
        alternatives = f"{', '.join(other_names)} or {last_name}" if other_names else last_name
        creation = ", and CREATE if it does not exist" if self.creates else ""
        return f"{self.who} needs {alternatives} on {self._resource}{creation}"

    @property
    def _resource(self) -> str:
        if self.resource_type is ResourceType.CLUSTER:
            return "the cluster"
        kind = self.resource_type.name.lower().replace("_", " ")
        return f"{kind} {self.name}" if self.name else f"a {kind}"


def on_topic(who: str, name: str, *operations: Operation, creates: bool = False) -> Right:
    return Right(who, operations, ResourceType.TOPIC, name, creates)


def on_group(who: str, name: str, *operations: Operation) -> Right:
    return Right(who, operations, ResourceType.GROUP, name)


def on_cluster(who: str, *operations: Operation) -> Right:
    return Right(who, operations, ResourceType.CLUSTER)
