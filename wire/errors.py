"""What a peer can do wrong.

    WireError
    ├── ProtocolError    the bytes are not Kafka's protocol: the connection is closed, one log line
    ├── BatchError       a record batch must be refused: answered with its Kafka error code
    └── MemberDataError  what a group's members tell each other cannot be read: nobody else minds

Any other exception that leaves this package is a bug in it; the fuzzers in `tests/wire` say so.
"""

from kio.schema.errors import ErrorCode

__all__ = ["BatchError", "ErrorCode", "MemberDataError", "ProtocolError", "WireError"]


class WireError(Exception):
    """A peer sent something that cannot be accepted."""


class ProtocolError(WireError):
    """The bytes of a connection cannot be understood; nothing after them can be trusted."""


class BatchError(WireError):
    """A record batch is refused; `code` is what the producer is told, and of which record that is
    said, if of one."""

    def __init__(self, code: ErrorCode, message: str, record: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.record = record


class MemberDataError(WireError):
    """A subscription or an assignment of a consumer group is not in the form of its protocol."""
