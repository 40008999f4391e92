"""Errors of a broker, and how it reports them to clients.

    BrokerError
    ├── ApiError    one request, topic, partition or config is refused; carries Kafka's error code
    └── MapLost     (broker.broker) ZooKeeper is empty, and the data directory belongs to a cluster

Handlers turn an `ApiError` into the error fields of their response, at the lowest level possible: a
bad partition does not affect the others of its request. The storage has its own tree, in
`broker.storage`.
"""

from wire.errors import ErrorCode

__all__ = ["ApiError", "BrokerError", "ErrorCode"]


class BrokerError(Exception):
    """A broker cannot carry out a request."""


class ApiError(BrokerError):
    """An error for a client: its `code`, and a `message` for people."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
