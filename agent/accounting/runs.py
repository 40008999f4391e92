"""Runs: accounts of stretches of a file, sent with every batch.

A source is one incarnation of a file, as read for one input. Its bytes are divided into consecutive
runs, and every byte is in exactly one run of its topic: in an event, or excepted with the reason.
The journal keeps runs, the ledger publishes them.
"""

from enum import StrEnum
from typing import NewType

import msgspec

SourceId = NewType("SourceId", str)
"""The unique id of an incarnation of a file, among all agents."""


class Fate(StrEnum):
    """What happened to a line that is not an event of its topic, as the ledger names it."""

    FILTERED = "filtered"
    DEAD_LETTERED = "dead_lettered"
    LOST = "lost"


class Excepted(msgspec.Struct, frozen=True):
    """Lines that did not become events, and their bytes; -1 for an unknown number."""

    fate: Fate
    count: int
    bytes: int
    reason: str = ""


class Run(msgspec.Struct, frozen=True):
    """Consecutive events of one source, and the consecutive bytes from which they were made.

    `seq` is the number of the first event, or of the next one if there is none. `lines` counts the
    lines of the file that became the events.
    """

    source: SourceId
    seq: int
    events: int
    position: int
    end_position: int
    lines: int
    excepted: tuple[Excepted, ...] = ()


class WindowCount(msgspec.Struct, frozen=True):
    """The number of a batch's events in the window that starts at `start` (milliseconds)."""

    start: int
    events: int


class Progress(msgspec.Struct, frozen=True):
    """The position in a source up to which the journal has everything, and the numbers to continue
    with.

    `position` is the next byte to read, `seq` the number of the topic's next event, `dead_seq`
    that of the next dead letter. `mark` is the CRC-32 of the up to 64 bytes before the position, by
    which the file is recognised after a restart; 0 if they are unknown.
    """

    position: int
    seq: int = 0
    dead_seq: int = 0
    mark: int = 0


class Fingerprint(msgspec.Struct, frozen=True):
    """The digest of the first `size` bytes of a file; it grows with the file up to a limit.
    `shorter` are digests of the first 16, 32, 64 and so on bytes, four bytes each, for comparison
    with fingerprints taken earlier."""

    size: int
    digest: bytes
    shorter: bytes = b""


class KnownSource(msgspec.Struct, frozen=True):
    """The state of a source that is remembered across restarts."""

    id: SourceId
    input: str
    topic: str
    path: str  # when it was first opened
    device: int
    inode: int
    fingerprint: Fingerprint
    progress: Progress
    last_path: str = ""  # when last seen, if it was renamed
    size: int = 0  # when last seen
    finished: bool = False
    seen_millis: int = 0  # when it was last seen on disk
    real_path: str = ""  # the target of a symbolic link, when last opened
    born_ns: int = 0  # creation time of its file, if known
    begun_ns: int = 0  # the earliest time of its first byte, if known
    forgotten_before: int = -1  # below this ledger entry it may have been another source
    destroyed_up_to: int = 0  # size of its file before it was emptied, if the copy has less
