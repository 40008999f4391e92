"""Errors caused by peers.

  WireError
  ├── ProtocolError    the bytes are not Kafka's protocol: the connection is closed, one log line
  ├── BatchError       a record batch is refused: answered with its Kafka error code
  └── MemberDataError  a group member's data are malformed: affects only that group

Any other exception from this package is a bug in it, as the fuzzers in `tests/wire` check.
"""

from kio.schema.errors import ErrorCode

__all__ = ["BatchError", "ErrorCode", "MemberDataError", "ProtocolError", "WireError"]


class WireError(Exception):
    """A peer sent something that cannot be accepted."""


class ProtocolError(WireError):
    """The bytes on a connection are malformed; what follows them cannot be trusted."""


class BatchError(WireError):
    """A record batch is rejected with `code`; if only one record is invalid, `record` is its
    index."""

    def __init__(self, code: ErrorCode, message: str, record: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.record = record


class MemberDataError(WireError):
    """A subscription or assignment in a consumer group is malformed."""
