"""What can go wrong with a partition's log. Each error carries the code that a client is told.

    StorageError
    ├── OffsetOutOfRange        nothing is stored at this offset, or not yet
    ├── SequenceError           an idempotent producer's batch does not follow its last one
    │   └── OtherBatch          it has the numbers of one that is stored, and other records
    ├── NotWritten              nothing was changed, the next append simply tries again
    │   └── DiskFull            there is no room
    ├── Altered                 a file that was closed is not as it was: its log must fail
    ├── Differs                 another cluster's log has another batch there than its copy
    ├── NotNext                 a leader's batch does not follow what a follower has of its log
    ├── LogOffline              the log failed for good and does nothing until a restart
    ├── BytesUnreadable         the disk did not give the bytes back: this read failed, no more
    ├── CorruptLog              where a batch should be there is none, and more follows
    │   └── EndMissing          the log is sound, and ends before where it is known to have been
    ├── InvalidBatch            where a batch should be there is none: recovery says what it means
    ├── BadSnapshot             a snapshot of producer states cannot be used: an older one is taken
    ├── BadCheckpoint           a checkpoint file is damaged: what it held is found in the log
    ├── BadIndex                an index contradicts its log: it is rebuilt, nobody else sees this
    └── ForeignDataDirectory    the directory belongs to another cluster, broker or topic

What the operating system says (`OSError`) becomes one of these wherever a client is answered.
"""

import errno
from pathlib import Path
from typing import Final

from wire.errors import ErrorCode

NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class StorageError(Exception):
    """Something about the stored log; `code` is what a client is told."""

    code = ErrorCode.kafka_storage_error


class OffsetOutOfRange(StorageError):
    """The offset lies before the log's start or after its end."""

    code = ErrorCode.offset_out_of_range


class SequenceError(StorageError):
    """A batch of an idempotent producer that must be refused."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class OtherBatch(SequenceError):
    """Not a duplicate: somebody else numbers batches in this producer's name, or it is broken."""


class NotWritten(StorageError):
    """What had to be made for a batch could not be; the log is as it was."""

    @classmethod
    def because(cls, error: OSError, what: str) -> "NotWritten":
        """`DiskFull` if that is what the system says."""
        kind = DiskFull if error.errno in NO_SPACE else NotWritten
        return kind(f"{what}: {error.strerror or error}")


class DiskFull(NotWritten):
    """The batch did not fit; the log is as it was, and the next append tries again."""


class Altered(StorageError):
    """A segment was let go of, and its file is another one now, or has grown or shrunk."""


class Differs(StorageError):
    """A batch that was to be copied contradicts what the copy has."""

    code = ErrorCode.invalid_record


class NotNext(StorageError):
    """The log has other records where the batch would stand: the follower asked too early."""


class LogOffline(StorageError):
    """The log is offline until the broker is started again; the message says why."""


class BytesUnreadable(StorageError):
    """The file system failed to return stored bytes; the log stays online."""


class CorruptLog(StorageError):
    """Stored bytes are damaged where truncating them would lose what follows."""


class EndMissing(CorruptLog):
    """Nothing follows `offset`, where the log had more on disk once: it was cut, or files of it are
    gone. There is nothing behind it that could be saved; `path` is the segment to be cut off at
    `position`, None where there is no segment at all. It had `reached` this offset."""

    def __init__(
        self, message: str, *, offset: int, path: Path | None, position: int, reached: int
    ) -> None:
        super().__init__(message)
        self.reached = reached
        self.offset = offset
        self.path = path
        self.position = position


class InvalidBatch(StorageError):
    """What is stored at `position` is no batch; `offset` is the one expected there."""

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
    """An index is torn or points at something that is not the batch it names."""


class ForeignDataDirectory(StorageError):
    """The directory was written by another broker, another cluster, or for another topic."""

    code = ErrorCode.inconsistent_cluster_id
