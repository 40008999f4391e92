"""The events that following files reports, as values to be journalled, counted and logged.

They must be journalled in the order in which a look returns them. A source ends with exactly one
`Ended`, or `EndUnseen` if its end was not seen; before that, `Lost` reports bytes that can no
longer be read.
"""

import msgspec

from agent.accounting.runs import KnownSource, SourceId
from agent.history.blind_times import Unwatched
from agent.recognition.followed import Followed


class Appeared(msgspec.Struct, frozen=True):
    """A source is now followed. `known_before`: it is known from a journal or an earlier look."""

    followed: Followed
    known_before: bool


class Renamed(msgspec.Struct, frozen=True):
    """A source's file has a new name; or it was copied and truncated, and continues in the copy."""

    followed: Followed
    former: str


class Grown(msgspec.Struct, frozen=True):
    """A source's fingerprint covers more bytes, and should be journalled."""

    followed: Followed


class Truncated(msgspec.Struct, frozen=True):
    """A source's file was truncated, and starts again as source `next`. `lost_bytes` were there at
    the last look, and neither read nor copied. Bytes written after that look are unknown."""

    followed: Followed
    lost_bytes: int
    next: Followed


class Deleted(msgspec.Struct, frozen=True):
    """A file was deleted; it is read to its end as long as `hold_deleted` allows."""

    followed: Followed


class Ended(msgspec.Struct, frozen=True):
    """A source is complete: everything was read or lost."""

    followed: Followed


class EndUnseen(msgspec.Struct, frozen=True):
    """A source has ended; its known bytes were read or lost, but it may have had more."""

    followed: Followed
    unwatched: Unwatched


class NotWatched(msgspec.Struct, frozen=True):
    """A folder was not watched for some time."""

    unwatched: Unwatched


class Unpacked(msgspec.Struct, frozen=True):
    """A source's file was compressed and removed, and is now read from the archive."""

    followed: Followed
    archive: str


class Lost(msgspec.Struct, frozen=True):
    """Bytes from `position` on can no longer be read; `bytes` is -1 if their number is unknown."""

    followed: Followed
    position: int
    bytes: int
    reason: str


class Released(msgspec.Struct, frozen=True):
    """A source is no longer followed, since no input matches it, but has not ended."""

    followed: Followed


class Forgettable(msgspec.Struct, frozen=True):
    """A finished source whose file was removed long ago, or belongs to another source now."""

    source: SourceId


class Remembered(msgspec.Struct, frozen=True):
    """What has been read of a finished source that is no longer followed, or of its archive, is
    remembered under an id of its own."""

    known: KnownSource


class Unreadable(msgspec.Struct, frozen=True):
    """A file or folder cannot be read. It is retried at every scan, and reported once."""

    path: str
    why: str


class ReadableAgain(msgspec.Struct, frozen=True):
    """A file or folder can be read again, or is `gone`."""

    path: str
    gone: bool = False


class Compressed(msgspec.Struct, frozen=True):
    """A compressed file is not read; reported once for each. `is_left`: its content was never
    reported, since it appeared while files were followed, or existed before the input. `why`: the
    reason, if the input reads archives."""

    input: str
    path: str
    topic: str
    is_left: bool
    why: str = ""


class LeftToOther(msgspec.Struct, frozen=True):
    """A file that an input matches is, or was, a source of another input with the same topic, so it
    is not read again. Reported once for each."""

    input: str
    path: str


class Polling(msgspec.Struct, frozen=True):
    """A folder or file without inotify events is polled. Reported once."""

    path: str
    why: str


Happening = (
    Appeared
    | Renamed
    | Grown
    | Truncated
    | Deleted
    | Ended
    | EndUnseen
    | NotWatched
    | Unpacked
    | Lost
    | Released
    | Forgettable
    | Remembered
    | Unreadable
    | ReadableAgain
    | Compressed
    | LeftToOther
    | Polling
)
