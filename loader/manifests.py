"""The commit log of a table: `{root}/_penstock/{table}/manifest-{run}.json`. Its format.

A manifest holds everything that its run changed, and the whole state after it: whoever has the
newest knows where to read on. It is created atomically, and never changed. What it says has
happened is made visible afterwards, by steps that can be repeated (loader/commit/publishing.py).
"""

from enum import StrEnum
from typing import Final

import msgspec

from loader.reports import ClosedIntervals, Landed, LandedWindow, LastBatch
from loader.tables import Hour

VERSION: Final = 1
FIRST_RUN: Final = 1
SEVERAL: Final = -1  # of sources whose events were in more than one partition


class RunKind(StrEnum):
    """What a run was for."""

    LOAD = "load"  # rows that were new
    CLOSE = "close"  # hours merged and called complete, or incomplete
    REBUILD = "rebuild"  # hours replaced from the brokers


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """A file that becomes visible. Paths are relative to the root."""

    staged: str
    path: str
    hour: Hour
    rows: int
    bytes: int
    checksum: str = ""  # of its content, by the store; empty: it has none, or Penstock 0.1 wrote it
    cluster: str = ""
    topic: str = ""
    partition: int = -1  # -1: merged of several
    first: int = -1
    next_offset: int = -1


class PartitionState(msgspec.Struct, frozen=True, kw_only=True):
    """Where a partition has been read to."""

    partition: int
    next_offset: int
    leader_epoch: int = -1  # of the newest batch that was read
    from_offset: int = -1  # where this run began; -1: it read nothing here
    skipped: int = 0  # offsets given up in this run: they were not there any more
    absent: bool = False  # brokers did not show it, and that was accepted; where it was read to
    last: LastBatch | None = None  # the last that was read; None: nothing, or by Penstock 0.1


class TopicState(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    cluster: str
    topic_id: str
    partitions: tuple[PartitionState, ...]


class KnownSources(msgspec.Struct, frozen=True, kw_only=True):
    """Which events have landed, in any run, of sources that have much in common: so there is little
    to be said of each. A source is in one of these, or it is not remembered."""

    topic: str
    partition: int  # that all their events were in; or SEVERAL
    loaded: Hour  # in which something of them was last loaded
    landed: dict[str, Landed]


class HourState(msgspec.Struct, frozen=True, kw_only=True):
    """An hour that has files: `files` are the paths of all that are visible."""

    rows: int
    files: tuple[str, ...]
    unlisted: int = 0  # further files, that only its folder has the names of: it is old
    bytes: int = 0
    changed: int = -1  # the run that last added rows
    complete: int = -1  # the run that called it complete
    incomplete: str = ""  # what was missing at the deadline, in words
    late_rows: int = 0  # that came after it had been called complete
    at: int = 0  # when it last got rows, or was called complete, milliseconds


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """What this run read of one partition in one leader epoch: its part of the ledger."""

    topic: str
    topic_id: str
    cluster: str
    partition: int
    first: int
    next_offset: int
    leader_epoch: int
    no_events: int
    missing: ClosedIntervals = ()  # of these offsets: what was not there, and was given up
    windows: tuple[LandedWindow, ...]
    late: dict[int, int] = {}  # by window: rows that came after their hour was complete
    sources: dict[str, ClosedIntervals] = {}  # what became rows


class Collision(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive events at consecutive offsets that became dead letters, as others have their
    source and seq, and other content. `kept` is where the first of those others lies."""

    topic: str
    topic_id: str
    partition: int
    leader_epoch: int
    first: int
    source: str
    seq: int
    events: int
    kept_partition: int
    kept: int  # -1: it is not in the log any more
    from_time: int  # between which the events are, milliseconds
    to_time: int


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """A file beside the rows: `_SUCCESS`, `_INCOMPLETE`, `_LATE-{run}`; `_common_metadata`."""

    path: str  # relative to the root
    content: str = ""
    data: bytes = b""  # where it is no text

    @property
    def written(self) -> bytes:
        """Nothing: it is taken away."""
        return self.data or self.content.encode()


class LedgerJournal(msgspec.Struct, frozen=True, kw_only=True):
    """As whom a run writes its entries of the ledger, and in which terms: whenever that is done,
    and however the loader is configured by then, they are the same."""

    source: str  # the same for all runs of a commit log, and nobody else's
    cluster: str
    destination: str  # the root, as it was called when the first run was committed
    window_millis: int
    origins: dict[str, str] = {}  # of topics that are copies, as their config says it


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    run: int
    kind: RunKind
    table: str
    committed: int  # milliseconds
    loader: str  # who: host, process, version of Penstock
    topics: tuple[TopicState, ...]
    adds: tuple[Added, ...] = ()
    removes: tuple[str, ...] = ()  # files that are replaced, relative to the root
    markers: tuple[Marker, ...] = ()
    passages: tuple[Passage, ...] = ()
    rebuilt: tuple[Hour, ...] = ()
    dead: dict[str, int] = {}  # by reason
    duplicates: int = 0
    collisions: tuple[Collision, ...] = ()
    hours: dict[Hour, HourState] = {}
    sources: tuple[KnownSources, ...] = ()
    schema: str = ""  # the columns that the table has ever had, as Spark's JSON
    format: str = ""  # of its files
    header: str = ""  # where its fields stand; empty: events have none
    ledger_seq: int = 0  # entries of the ledger that runs before this one have written
    ledger_entries: int = 0  # that this one writes
    ledger: LedgerJournal | None = None  # None: nothing was ever said in the ledger
