"""The errors of a partition's log, each with the code for clients.

    StorageError
    ├── OffsetOutOfRange        nothing is stored at this offset, or not yet
    ├── SequenceError           an idempotent producer's batch does not follow its last one
    │   └── OtherBatch          it has the numbers of a stored batch, and other records
    ├── NotWritten              nothing was changed, and the next append simply retries
    │   └── DiskFull            there is no room
    ├── Altered                 a closed file was changed: its log must fail
    ├── Differs                 another cluster's log has another batch there than its copy
    ├── NotNext                 a leader's batch does not follow what a follower has of its log
    ├── LogOffline              the log failed, and is unusable until a restart
    ├── BytesUnreadable         the disk did not return the bytes: only this read failed
    ├── CorruptLog              a batch is missing or damaged, and others follow
    │   └── EndMissing          the log is intact, and ends before its known former end
    ├── InvalidBatch            a batch is missing or damaged: recovery decides what that means
    ├── BadSnapshot             a snapshot of producer states is unusable: an older one is used
    ├── BadCheckpoint           a checkpoint file is damaged: its contents are found in the log
    ├── BadIndex                an index contradicts its log: it is rebuilt, clients do not notice
    └── ForeignDataDirectory    the directory belongs to another cluster, broker or topic

An `OSError` becomes one of these wherever a client is answered.
"""

import errno
from pathlib import Path
from typing import Final

from wire.errors import ErrorCode

NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class StorageError(Exception):
    """An error of a stored log; `code` is for clients."""

    code = ErrorCode.kafka_storage_error


class OffsetOutOfRange(StorageError):
    """The offset is before the log's start or after its end."""

    code = ErrorCode.offset_out_of_range


class SequenceError(StorageError):
    """A batch of an idempotent producer that must be rejected."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class OtherBatch(SequenceError):
    """Raised when the sequence matches a stored batch with other contents: another client uses this
    producer's id, or the producer is broken."""


class NotWritten(StorageError):
    """A file that a batch needs could not be created; the log is unchanged."""

    @classmethod
    def because(cls, error: OSError, what: str) -> "NotWritten":
        """Returns the error with its cause: a `DiskFull` if the disk is full."""
        kind = DiskFull if error.errno in NO_SPACE else NotWritten
        return kind(f"{what}: {error.strerror or error}")


class DiskFull(NotWritten):
    """The disk is full; the log is unchanged, and the next append retries."""


class Altered(StorageError):
    """A sealed segment's file was replaced, or has grown or shrunk."""


class Differs(StorageError):
    """A batch that was to be copied differs from the batch in the copy."""

    code = ErrorCode.invalid_record


class NotNext(StorageError):
    """The batch does not follow the log's end: the follower's request came too early."""


class LogOffline(StorageError):
    """The log is offline until the broker restarts; the message has the reason."""


class BytesUnreadable(StorageError):
    """The file system did not return stored bytes; the log stays online."""


class CorruptLog(StorageError):
    """Stored bytes are damaged, and truncating them would lose what follows."""


class EndMissing(CorruptLog):
    """The log ends at `offset`, but had more on disk before: it was truncated, or files are
    missing. Nothing after `offset` can be recovered. `path` is the segment to truncate at
    `position`, None if no segment is left. `reached` is the former end."""

    def __init__(
        self, message: str, *, offset: int, path: Path | None, position: int, reached: int
    ) -> None:
        super().__init__(message)
        self.reached = reached
        self.offset = offset
        self.path = path
        self.position = position


class InvalidBatch(StorageError):
    """There is no valid batch at `position`, where `offset` is expected."""

    def __init__(self, position: int, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.position = position
        self.offset = offset
        self.reason = reason


class BadSnapshot(StorageError):
    """A snapshot of producer states is torn, damaged or of an unknown version."""


class BadCheckpoint(StorageError):
    """A small text file beside the log is torn, damaged or of an unknown version."""


class BadIndex(StorageError):
    """An index is torn, or refers to a batch that is not there."""


class ForeignDataDirectory(StorageError):
    """The directory belongs to another broker, another cluster, or another topic."""

    code = ErrorCode.inconsistent_cluster_id
