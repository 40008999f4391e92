"""The dependencies and the authorization check of the consumer group APIs' handlers."""

import msgspec

from broker.access.authorization import Authorization, Rights
from broker.connections.caller import Caller
from broker.groups.coordinator import Coordinator
from wire.acls import Operation, ResourceType
from wire.errors import ErrorCode

REFUSED = ErrorCode.group_authorization_failed


class Needs(msgspec.Struct, frozen=True):
    groups: Coordinator
    authorization: Authorization

    def refuses(self, caller: Caller, operation: Operation, group: str) -> bool:
        """Returns whether the caller may not perform the operation on the group, and logs a
        denial."""
        return refuses(self.authorization.of(caller), operation, group)


def refuses(rights: Rights, operation: Operation, group: str) -> bool:
    return rights.refuses(operation, ResourceType.GROUP, group)
