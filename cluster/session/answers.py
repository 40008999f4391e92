"""Converts kazoo's results to values, and its exceptions to this package's errors."""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.interfaces import IAsyncResult

from cluster.errors import Cause, ClusterError, Conflict, NotAllowed, Unanswered, Unavailable
from cluster.session.addresses import ZooKeeperAddress
from cluster.session.operations import Node, Operation

_CAUSES: Final[dict[type[KazooException], Cause]] = {
    NodeExistsError: Cause.EXISTS,
    NoNodeError: Cause.MISSING,
    BadVersionError: Cause.CHANGED,
    NotEmptyError: Cause.NOT_EMPTY,
}
# Results of operations in a failed transaction that did not fail themselves.
_BYSTANDERS: Final = (RolledBackError, RuntimeInconsistency)

T = TypeVar("T")


class PendingAnswer(Generic[T]):
    """A result of kazoo that may not have arrived."""

    __slots__ = ("_address", "_convert", "_path", "_result")

    def __init__(
        self,
        address: ZooKeeperAddress,
        path: str,
        result: IAsyncResult,
        convert: Callable[[Any], T],
    ) -> None:
        self._address = address
        self._path = path
        self._result = result
        self._convert = convert

    @property
    def is_here(self) -> bool:
        """Whether `get` returns at once."""
        return bool(self._result.ready())

    def get(self, timeout_s: float) -> T:
        """Waits for the answer and returns it converted. For a missing node, None is converted."""
        try:
            value = self._result.get(timeout=max(timeout_s, 0.0))
        except NoNodeError:
            value = None
        except (KazooException, KazooTimeoutError) as error:
            raise translated(error, self._address, self._path) from None
        return self._convert(value)


def node(answer: Any) -> Node | None:  # Any, here and below: kazoo has no types
    if answer is None:
        return None
    data, stat = answer
    return Node(
        data=data,
        version=stat.version,
        owner=stat.ephemeralOwner,
        created=stat.czxid,
        changed=stat.mzxid,
    )


def names(answer: Any) -> tuple[str, ...] | None:
    return None if answer is None else tuple(answer)


def is_there(answer: Any) -> bool:
    return answer is not None


def failed_operation(
    operations: tuple[Operation, ...], results: Any
) -> tuple[Operation, Exception] | None:
    """Returns the operation at which a transaction failed, with the error; None if the transaction
    succeeded."""
    for operation, result in zip(operations, results, strict=True):
        if isinstance(result, Exception) and not isinstance(result, _BYSTANDERS):
            return operation, result
    return None


def silent(address: ZooKeeperAddress, path: str) -> Unavailable:
    return Unavailable(_silence(address, path))


def login_refused(address: ZooKeeperAddress) -> NotAllowed:
    return NotAllowed(
        f"ZooKeeper at {', '.join(address.hosts)} refuses the login of `zookeeper_security`: "
        "check the user and password, and whether it supports logins at all"
    )


def translated(error: Exception, address: ZooKeeperAddress, path: str) -> ClusterError:
    cause = _CAUSES.get(type(error))
    if cause is not None:
        return Conflict(f"ZooKeeper node {address.chroot}{path} {cause.value}", path, cause)
    if isinstance(error, ConnectionLoss | KazooTimeoutError | OperationTimeoutError):
        return Unanswered(_silence(address, path))
    if isinstance(error, SessionExpiredError):  # also raised when the session has been closed
        return silent(address, path)
    if isinstance(error, AuthFailedError):
        return login_refused(address)
    if isinstance(error, NoAuthError):
        return NotAllowed(
            f"ZooKeeper at {', '.join(address.hosts)} denies access to {address.chroot}{path}: "
            "the node was created with another secret"
        )
    return ClusterError(
        f"ZooKeeper at {', '.join(address.hosts)} answered {type(error).__name__} "
        f"for node {address.chroot}{path}"
    )


def _silence(address: ZooKeeperAddress, path: str) -> str:
    return f"ZooKeeper at {', '.join(address.hosts)} does not answer (node {address.chroot}{path})"
