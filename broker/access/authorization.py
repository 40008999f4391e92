"""Checks what clients may do on this broker, before a request is answered.

An `Authorization` follows the ACLs of the map; `of` returns the rights of one caller by the ACLs in
force. A handler calls it once a request, so that no answer is based on two sets of ACLs. If the
configuration has no `authorization:`, everything is allowed, and nothing is looked up.
`broker.api.operations` lists the right that each API needs.

`follow` is called on the view's thread: what it makes is complete before another thread can see it.
Denials are reported to `denied`, which counts and logs them; calling `may` reports nothing.
"""

from collections.abc import Callable, Iterable, Set
from typing import Final

from broker.access.acl_evaluation import ON, Permissions
from broker.configs.config import AuthorizationConfig
from broker.connections.caller import Caller
from broker.errors import ApiError
from wire.acls import THE_CLUSTER, USER, Acls, Operation, ResourceType
from wire.errors import ErrorCode

_TOPIC: Final = ResourceType.TOPIC
REFUSALS: Final = {
    ResourceType.TOPIC: ErrorCode.topic_authorization_failed,
    ResourceType.GROUP: ErrorCode.group_authorization_failed,
    ResourceType.CLUSTER: ErrorCode.cluster_authorization_failed,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.transactional_id_authorization_failed,
}
"""The error code for a denied operation on a resource of this kind."""


Denied = Callable[[Caller, Operation, ResourceType, str], None]


class Rights:
    """The rights of one caller under one version of the ACLs."""

    __slots__ = ("_caller", "_denied", "_host", "_permissions", "_principal")

    def __init__(self, permissions: Permissions | None, caller: Caller, denied: Denied) -> None:
        self._permissions = permissions
        self._principal = caller.principal
        self._host = caller.host
        self._caller = caller
        self._denied = denied

    @property
    def limited(self) -> bool:
        """Whether ACLs restrict the caller; otherwise everything is allowed."""
        return self._permissions is not None

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        if self._permissions is None:
            return True
        return self._permissions.allows(self._principal, self._host, operation, kind, name)

    def may_on_topic(self, operation: Operation, name: str) -> bool:
        return self.may(operation, _TOPIC, name)

    def may_on_cluster(self, operation: Operation) -> bool:
        return self.may(operation, ResourceType.CLUSTER, THE_CLUSTER)

    def may_on_some_topic(self, operation: Operation) -> bool:
        """Returns whether the operation may be allowed on some topic."""
        if self._permissions is None:
            return True
        return self._permissions.allows_somewhere(self._principal, self._host, operation, _TOPIC)

    def operations(self, kind: ResourceType, name: str) -> int:
        """Returns all operations allowed on a resource, as Kafka's bit field."""
        if self._permissions is None:
            return ON[kind]
        return self._permissions.allowed(self._principal, self._host, kind, name) & ON[kind]

    def operations_on_cluster(self) -> int:
        """Returns the operations allowed on the cluster, as bits; 0 for a caller that may not
        describe it."""
        if not self.may_on_cluster(Operation.DESCRIBE):
            return 0
        return self.operations(ResourceType.CLUSTER, THE_CLUSTER)

    def refuses(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Returns whether the operation is denied, and reports a denial."""
        if self.may(operation, kind, name):
            return False
        self._denied(self._caller, operation, kind, name)
        return True

    def check(self, operation: Operation, kind: ResourceType, name: str) -> None:
        if self.refuses(operation, kind, name):
            raise denial(operation, kind, name)

    def check_topic(self, operation: Operation, name: str) -> None:
        self.check(operation, _TOPIC, name)

    def check_cluster(self, operation: Operation) -> None:
        self.check(operation, ResourceType.CLUSTER, THE_CLUSTER)


def denial(operation: Operation, kind: ResourceType, name: str) -> ApiError:
    """Returns the error for a missing right. It names the operation, and does not reveal whether
    the resource exists."""
    resource = "the cluster" if kind is ResourceType.CLUSTER else f"{kind.words} {name[:250]!r}"
    return ApiError(REFUSALS[kind], f"not authorized: {operation.words} on {resource}")


class Authorization:
    """The ACLs in force. Safe to use on any thread."""

    def __init__(self, config: AuthorizationConfig | None, denied: Denied) -> None:
        self._config = config
        self._denied = denied
        self._super_users = frozenset(
            name.removeprefix(USER) for name in (config.super_users if config else ())
        )
        self._permissions: Permissions | None = None
        if config is not None:
            self.follow({})

    @property
    def is_on(self) -> bool:
        return self._permissions is not None

    @property
    def permissions(self) -> Permissions | None:
        """The permissions, replaced whenever the ACLs may have changed; None if everything is
        allowed."""
        return self._permissions

    @property
    def acls(self) -> Acls:
        return {} if self._permissions is None else self._permissions.acls

    def follow(self, acls: Acls) -> None:
        old_permissions = self._permissions
        if self._config is None or (old_permissions is not None and old_permissions.acls is acls):
            return
        self._permissions = Permissions(
            acls,
            self._super_users,
            allow_if_no_acl=self._config.allow_if_no_acl,
            before=old_permissions,
        )

    def of(self, caller: Caller) -> Rights:
        return Rights(self._permissions, caller, self._denied)

    def denied_topics(
        self, caller: Caller, operation: Operation, topics: Iterable[str]
    ) -> Set[str]:
        if self._permissions is None:
            return frozenset()
        rights = self.of(caller)
        return {name for name in topics if rights.refuses(operation, _TOPIC, name)}
