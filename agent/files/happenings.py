"""What following files found out: values, for whoever journals, counts and logs.

The order within one look is that in which things are to be written down. A source is over with
`Ended`, or, if nobody saw its end, with `EndUnseen`, and with nothing else; before it, `Lost` says
what of it nobody can read any more.
"""

from dataclasses import dataclass

from agent.history.blind_times import Unwatched
from agent.recognition.followed import Followed
from agent.runs import SourceId


@dataclass(frozen=True, slots=True)
class Appeared:
    """A source is followed from now on; `known_before`: from a journal or an earlier look."""

    followed: Followed
    known_before: bool


@dataclass(frozen=True, slots=True)
class Renamed:
    """Its file has another name, or, copied and then truncated, lives on in the copy."""

    followed: Followed
    former: str


@dataclass(frozen=True, slots=True)
class Grown:
    """Its fingerprint covers more than before: worth writing down."""

    followed: Followed


@dataclass(frozen=True, slots=True)
class Truncated:
    """Its file begins anew, as `next`. `lost_bytes`: 0 if a copy has what was unread; else what
    was there at the last look and was not read. What was written since then nobody knows."""

    followed: Followed
    lost_bytes: int
    next: Followed


@dataclass(frozen=True, slots=True)
class Deleted:
    """It has no name any more; it is read to its end as long as that is allowed."""

    followed: Followed


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing more will come, and everything was read or lost."""

    followed: Followed


@dataclass(frozen=True, slots=True)
class EndUnseen:
    """Nothing more will come, and what was known of it was read or lost: but there may have been
    more, which nobody saw."""

    followed: Followed
    unwatched: Unwatched


@dataclass(frozen=True, slots=True)
class NotWatched:
    """Nobody looked at a folder for a while."""

    unwatched: Unwatched


@dataclass(frozen=True, slots=True)
class Unpacked:
    """Its file is gone, but was compressed: it is read from there."""

    followed: Followed
    archive: str


@dataclass(frozen=True, slots=True)
class Lost:
    """So many bytes from there on cannot be read any more; -1 if nobody can know how many."""

    followed: Followed
    position: int
    bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Released:
    """Not followed any more, though not over: no input means it now."""

    followed: Followed


@dataclass(frozen=True, slots=True)
class Forgettable:
    """A finished source whose file has not been on disk for long, or is another one's now."""

    source: SourceId


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file or folder; tried again at every scan. Said once, until it is readable again."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class ReadableAgain:
    """Or, if `gone`, not there any more."""

    path: str
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Compressed:
    """A compressed file is not read: said of each once. `is_left`: nobody spoke of it before, as it
    came while files were looked at, or was there before the input was."""

    input: str
    path: str
    topic: str
    is_left: bool


@dataclass(frozen=True, slots=True)
class Polling:
    """Events are not to be had for this folder or file: looked at now and then. Said once."""

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
    | Unreadable
    | ReadableAgain
    | Compressed
    | Polling
)
