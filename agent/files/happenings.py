"""What following files found out: values, for whoever journals, counts and logs.

The order within one look is that in which things are to be written down. A source is over with
`Ended`, or, if nobody saw its end, with `EndUnseen`, and with nothing else; before it, `Lost` says
what of it nobody can read any more.
"""

import msgspec

from agent.history.blind_times import Unwatched
from agent.recognition.followed import Followed
from agent.runs import SourceId


class Appeared(msgspec.Struct, frozen=True):
    """A source is followed from now on; `known_before`: from a journal or an earlier look."""

    followed: Followed
    known_before: bool


class Renamed(msgspec.Struct, frozen=True):
    """Its file has another name, or, copied and then truncated, lives on in the copy."""

    followed: Followed
    former: str


class Grown(msgspec.Struct, frozen=True):
    """Its fingerprint covers more than before: worth writing down."""

    followed: Followed


class Truncated(msgspec.Struct, frozen=True):
    """Its file begins anew, as `next`. `lost_bytes`: 0 if a copy has what was unread; else what
    was there at the last look and was not read. What was written since then nobody knows."""

    followed: Followed
    lost_bytes: int
    next: Followed


class Deleted(msgspec.Struct, frozen=True):
    """It has no name any more; it is read to its end as long as that is allowed."""

    followed: Followed


class Ended(msgspec.Struct, frozen=True):
    """Nothing more will come, and everything was read or lost."""

    followed: Followed


class EndUnseen(msgspec.Struct, frozen=True):
    """Nothing more will come, and what was known of it was read or lost: but there may have been
    more, which nobody saw."""

    followed: Followed
    unwatched: Unwatched


class NotWatched(msgspec.Struct, frozen=True):
    """Nobody looked at a folder for a while."""

    unwatched: Unwatched


class Unpacked(msgspec.Struct, frozen=True):
    """Its file is gone, but was compressed: it is read from there."""

    followed: Followed
    archive: str


class Lost(msgspec.Struct, frozen=True):
    """So many bytes from there on cannot be read any more; -1 if nobody can know how many."""

    followed: Followed
    position: int
    bytes: int
    reason: str


class Released(msgspec.Struct, frozen=True):
    """Not followed any more, though not over: no input means it now."""

    followed: Followed


class Forgettable(msgspec.Struct, frozen=True):
    """A finished source whose file has not been on disk for long, or is another one's now."""

    source: SourceId


class Unreadable(msgspec.Struct, frozen=True):
    """A file or folder; tried again at every scan. Said once, until it is readable again."""

    path: str
    why: str


class ReadableAgain(msgspec.Struct, frozen=True):
    """Or, if `gone`, not there any more."""

    path: str
    gone: bool = False


class Compressed(msgspec.Struct, frozen=True):
    """A compressed file is not read: said of each once. `is_left`: nobody spoke of it before, as it
    came while files were looked at, or was there before the input was."""

    input: str
    path: str
    topic: str
    is_left: bool


class Polling(msgspec.Struct, frozen=True):
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
