"""What a broker's ACLs must allow for a request, and to whom: for whoever reads that it is missing.

A right is one operation, or any of several, on a resource. Who has asked is named as ACLs name
him, where that is known here: what a certificate's principal is called, the brokers decide.
"""

from typing import Final

import msgspec

from wire.acls import Operation, ResourceType

TO_SEE: Final = (Operation.DESCRIBE, Operation.READ, Operation.WRITE)
"""Any of these, and a topic is shown."""


class Right(msgspec.Struct, frozen=True):
    """One of `operations`, on the resource of that name; without a name, on any of its kind.
    `creates`: and CREATE, if it is not there yet."""

    who: str
    operations: tuple[Operation, ...]
    resource_type: ResourceType
    name: str = ""
    creates: bool = False

    def __str__(self) -> str:
        *others, last = (each.name for each in self.operations)
        any_of = f"{', '.join(others)} or {last}" if others else last
        more = ", and CREATE if it is not there yet" if self.creates else ""
        return f"{self.who} needs {any_of} on {self._resource}{more}"

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
