"""What became of stretches of a file: the bookkeeping that goes with every batch.

A source is one incarnation of a file, as one input reads it. Its bytes are passed on in runs, one
after the other, and every byte lies in exactly one run of its topic: as an event, or excepted with
the reason. `journal` keeps runs, the ledger publishes them.
"""

from enum import StrEnum
from typing import NewType

import msgspec

SourceId = NewType("SourceId", str)
"""The incarnation of a file: never given twice, by any agent."""


class Fate(StrEnum):
    """What became of a line that is no event of its topic. The words are the ledger's."""

    FILTERED = "filtered"
    DEAD_LETTERED = "dead_lettered"
    LOST = "lost"


class Excepted(msgspec.Struct, frozen=True):
    """Lines that did not become events; -1 where nobody can know how many."""

    fate: Fate
    count: int
    bytes: int
    reason: str = ""


class Run(msgspec.Struct, frozen=True):
    """Consecutive events of one source, and the consecutive bytes that they were made from.

    `seq` is that of the first event, or the next one's if there is none. `lines` counts the lines
    of the file that became the events.
    """

    source: SourceId
    seq: int
    events: int
    position: int
    end_position: int
    lines: int
    excepted: tuple[Excepted, ...] = ()


class WindowCount(msgspec.Struct, frozen=True):
    """How many of a batch's events lie in the window that starts then (milliseconds)."""

    start: int
    events: int


class Progress(msgspec.Struct, frozen=True):
    """How far a source has come: what lies before was taken over by the journal.

    `position` is the next byte to read, `seq` the number of the topic's next event, `dead_seq`
    that of the next dead letter. `mark` is the CRC-32 of the up to 64 bytes before the position, by
    which the file is known again after a restart; 0 where they are not known.
    """

    position: int
    seq: int = 0
    dead_seq: int = 0
    mark: int = 0


class Fingerprint(msgspec.Struct, frozen=True):
    """The first `size` bytes of a file as a digest: grows with the file up to a limit. `shorter`
    are digests of fewer bytes, or as many, by which it is held against one that was taken earlier:
    of 16, 32, 64, and so on, four bytes of each."""

    size: int
    digest: bytes
    shorter: bytes = b""


class KnownSource(msgspec.Struct, frozen=True):
    """A source as it is remembered over restarts."""

    id: SourceId
    input: str
    topic: str
    path: str  # as the file was named when it was first opened
    device: int
    inode: int
    fingerprint: Fingerprint
    progress: Progress
    last_path: str = ""  # as it was last seen, if it was renamed
    size: int = 0  # as it was last seen
    finished: bool = False
    seen_millis: int = 0  # when it was last seen on disk
    real_path: str = ""  # where a symbolic link led, as it was last opened
    born_ns: int = 0  # when its file was made, if that is known
    begun_ns: int = 0  # when its first byte may have been written, if that is known
    forgotten_before: int = -1  # below this ledger entry it may have been another source
    destroyed_up_to: int = 0  # size of its file before it was emptied, if the copy has less
