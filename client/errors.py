"""Errors between a client and a cluster, in one tree.

    ClientError
    ├── BadAddress          an address in `--bootstrap …` is invalid
    ├── NotReachable        no broker accepts a connection
    ├── ConnectionLost      the connection broke or timed out: the request may have been served
    ├── NotLetIn            TLS or a login failed: one side does not trust the other
    │   └── WrongCredentials  the broker rejected a user name and password, or a token
    ├── NotKafka            the peer does not speak Kafka's protocol
    ├── Unsupported         the broker supports no version of an API that Penstock does
    ├── UnknownTopic        the topic does not exist and was not to be created
    ├── Corrupt             a record batch is damaged: its partition and offset are named
    ├── OffsetsMissing      offsets to be read are not in the log, or no longer
    └── Refused             the broker answered with one of Kafka's error codes: `code`
        └── NotAllowed      an ACL is missing: `right` says which, and for whom

`retriable` says whether the same request may succeed a moment later. Functions of this package
raise no other errors of their own.
"""

from typing import Final

from client.rights import Right
from wire.errors import ErrorCode

__all__ = [
    "BadAddress",
    "ClientError",
    "ConnectionLost",
    "Corrupt",
    "ErrorCode",
    "NotAllowed",
    "NotKafka",
    "NotLetIn",
    "NotReachable",
    "OffsetsMissing",
    "Refused",
    "UnknownTopic",
    "Unsupported",
    "WrongCredentials",
]


class ClientError(Exception):
    """A request failed, or its outcome is unknown."""

    retriable = False


class BadAddress(ClientError):
    pass


class NotReachable(ClientError):
    retriable = True


class ConnectionLost(ClientError):
    retriable = True


class NotLetIn(ClientError):
    """A login was rejected. This may be temporary: passwords and certificates are replaced on one
    side before the other."""


class WrongCredentials(NotLetIn):
    pass


class NotKafka(ClientError):
    pass


class Unsupported(ClientError):
    pass


class UnknownTopic(ClientError):
    def __init__(self, topic: str, message: str = "") -> None:
        super().__init__(message or f"no topic {topic}")
        self.topic = topic


class Corrupt(ClientError):
    """A damaged batch. It begins at offset `first` (-1 if unknown) and claims `count` offsets (0 if
    even that is unreadable)."""

    def __init__(self, text: str, *, first: int = -1, count: int = 0) -> None:
        super().__init__(text)
        self.first = first
        self.count = count


class OffsetsMissing(ClientError):
    """Offsets `first` to `end`, exclusive, of a partition cannot be read."""

    def __init__(
        self, name: str, first: int, end: int, why: str, *, retriable: bool = False
    ) -> None:
        super().__init__(f"{name}: offsets {first} to {end - 1} cannot be read: {why}")
        self.first = first
        self.end = end
        self.retriable = retriable


class Refused(ClientError):
    """The broker answered `code` to a request about `what`."""

    def __init__(self, what: str, code: ErrorCode, message: str | None = None) -> None:
        text = message or code.name.replace("_", " ")
        super().__init__(f"{what}: {text}")
        self.code = code
        self.retriable = code.retriable


class NotAllowed(Refused):
    """The request needs `right`, which is not granted."""

    def __init__(self, what: str, code: ErrorCode, right: Right) -> None:
        super().__init__(what, code, f"not allowed: {right}")
        self.right = right


_WITHOUT_A_RIGHT: Final = frozenset(
    {
        ErrorCode.topic_authorization_failed,
        ErrorCode.group_authorization_failed,
        ErrorCode.cluster_authorization_failed,
    }
)


def refusal(
    what: str, code: ErrorCode, message: str | None = None, *, needs: Right | None = None
) -> Refused:
    """Returns the error to raise. `needs` is the right whose absence causes such a refusal."""
    if needs is not None and code in _WITHOUT_A_RIGHT:
        return NotAllowed(what, code, needs)
    return Refused(what, code, message)


def check(
    code: ErrorCode, what: str, message: str | None = None, *, needs: Right | None = None
) -> None:
    """Checks an error code. Raises `Refused` unless it is `none`."""
    if code is not ErrorCode.none:
        raise refusal(what, code, message, needs=needs)
