"""What can go wrong between a client and a cluster, in one tree.

    ClientError
    ├── BadAddress          `--bootstrap …` cannot be understood
    ├── NotReachable        no broker takes a connection
    ├── ConnectionLost      it broke, or no answer came in time: the request may have been served
    ├── NotLetIn            TLS or a login failed: one side does not believe the other
    │   └── WrongCredentials  the broker says no to a name with its password, or to a token
    ├── NotKafka            what answers does not speak Kafka's protocol
    ├── Unsupported         the broker has no version of an API that Penstock speaks
    ├── UnknownTopic        there is no such topic, and nobody asked to create it
    ├── Corrupt             a record batch is damaged: its partition and offset are named
    ├── OffsetsMissing      what should be read is not in the log, or not any more
    └── Refused             the broker answered with one of Kafka's error codes: `code`
        └── NotAllowed      an ACL is missing: `right` says which, and for whom

`retriable` says whether the same request may succeed a moment later. Functions of this package
raise these and nothing else of their own.
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
    """Something a client asked for did not happen, or may not have happened."""

    retriable = False


class BadAddress(ClientError):
    pass


class NotReachable(ClientError):
    retriable = True


class ConnectionLost(ClientError):
    retriable = True


class NotLetIn(ClientError):
    """Passing, it may be: passwords and certificates are exchanged, one side before the other."""


class WrongCredentials(NotLetIn):
    pass


class NotKafka(ClientError):
    pass


class Unsupported(ClientError):
    pass


class UnknownTopic(ClientError):
    pass


class Corrupt(ClientError):
    """The batch at offset `first`, which says that it has `count` offsets; 0 if even that cannot be
    read, and -1 where the place is not known."""

    def __init__(self, text: str, *, first: int = -1, count: int = 0) -> None:
        super().__init__(text)
        self.first = first
        self.count = count


class OffsetsMissing(ClientError):
    """The offsets from `first` on, below `end`, of a partition."""

    def __init__(
        self, name: str, first: int, end: int, why: str, *, retriable: bool = False
    ) -> None:
        super().__init__(f"{name}: offsets {first} to {end - 1} cannot be read: {why}")
        self.first = first
        self.end = end
        self.retriable = retriable


class Refused(ClientError):
    """`code` is what the broker answered; `what` is what it was asked about."""

    def __init__(self, what: str, code: ErrorCode, message: str | None = None) -> None:
        said = message or code.name.replace("_", " ")
        super().__init__(f"{what}: {said}")
        self.code = code
        self.retriable = code.retriable


class NotAllowed(Refused):
    """`right` is what must be granted."""

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
    """What to raise. `needs` is the right without which such a request is refused."""
    if needs is not None and code in _WITHOUT_A_RIGHT:
        return NotAllowed(what, code, needs)
    return Refused(what, code, message)


def check(
    code: ErrorCode, what: str, message: str | None = None, *, needs: Right | None = None
) -> None:
    """Raise `Refused` unless the code says that all is well."""
    if code is not ErrorCode.none:
        raise refusal(what, code, message, needs=needs)
