"""The format of a table's commit log: `{root}/_penstock/{table}/manifest-{run}.json`.

A manifest has everything that its run changed, and the state after it: the newest one says where to
continue. Of hours and sources, which are most of the state, many manifests have only those that
differ from an earlier one (loader/commit/changes.py). A manifest is created atomically, and never
changed. Its effects are made visible afterwards, in steps that can be repeated
(loader/commit/publishing.py).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Self

import msgspec

from ground.intervals import Intervals
from loader.values.reports import ClosedIntervals, Landed, LandedWindow, LastBatch
from loader.values.rewrites import RewriteReason
from loader.values.tables import UNKNOWN_DIGEST, Digest, Hour

VERSION: Final = 1  # of a manifest with all hours and sources
VERSION_OF_CHANGES: Final = 2  # of one without; Penstock builds that know only complete ones stop
FIRST_RUN: Final = 1
SEVERAL: Final = -1  # the partition of sources whose events were in more than one


class RunKind(StrEnum):
    LOAD = "load"  # new rows
    CLOSE = "close"  # hours merged and declared complete, or marked as incomplete
    REBUILD = "rebuild"  # hours read again from the brokers
    REWRITE = "rewrite"  # the same rows in other files


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """A file that the run makes visible. Paths are relative to the root."""

    staged: str
    path: str
    hour: Hour
    rows: int
    bytes: int
    checksum: str = ""  # of its content; empty: the store has none, or Penstock 0.1 wrote it
    digest: Digest = UNKNOWN_DIGEST  # of its content
    cluster: str = ""
    topic: str = ""
    partition: int = -1  # -1: merged from several
    first: int = -1
    next_offset: int = -1


class PartitionState(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of reading a partition."""

    partition: int
    next_offset: int
    leader_epoch: int = -1  # of the newest batch read
    from_offset: int = -1  # where this run started; -1: it read nothing here
    skipped: int = 0  # offsets that were gone, and given up in this run
    absent: bool = False  # brokers do not show it, which was accepted
    last: LastBatch | None = None  # last batch read; None: nothing read, or by Penstock 0.1


class TopicState(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    cluster: str
    topic_id: str
    partitions: tuple[PartitionState, ...]


class KnownSources(msgspec.Struct, frozen=True, kw_only=True):
    """The landed events of sources that share a topic, partition and hour, which keeps manifests
    small. A source that is in none of these is not remembered."""

    topic: str
    partition: int  # of all their events; or SEVERAL
    loaded: Hour  # in which their events were last loaded
    landed: dict[str, Landed]


class Issued(msgspec.Struct, frozen=True, array_like=True):
    """A certificate of the table: its number, and the SHA-256 of its payload and of the payload of
    the one before it, which the first one lacks."""

    number: int
    digest: Digest
    previous: Digest = UNKNOWN_DIGEST


class HourState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An hour that has files, or is waited for: `files` are the paths of all visible files."""

    rows: int
    files: tuple[str, ...]
    unlisted: int = 0  # further files of an old hour: only its folder has their names
    bytes: int = 0
    changed: int = -1  # the run that last added rows
    complete: int = -1  # the run that declared it complete
    incomplete: str = ""  # what was missing at the deadline, in words
    late_rows: int = 0  # that came after it was complete
    at: int = 0  # when it last got rows, or became complete, milliseconds
    whole: int = 0  # rows before files were deleted, or a rebuild read fewer events; 0: neither
    schema_number: int = 0  # the manifest's when all files got its columns; 0: unknown, or several
    rewritten: int = -1  # the run that last replaced files by others with the same rows
    digests: tuple[Digest, ...] = ()  # of the files, in their order; (): all are unknown
    certificates: tuple[Issued, ...] = ()  # all of this hour, in ascending order
    certified: int = -1  # the run that made the last of them
    altered: str = ""  # which of its rows are not what agents have signed, in words

    @property
    def digest_by_file(self) -> dict[str, Digest]:
        digests = self.digests or (UNKNOWN_DIGEST,) * len(self.files)
        return dict(zip(self.files, digests, strict=True))

    def with_files(self, files: Mapping[str, Digest]) -> Self:
        """The state with these files, given with their digests."""
        digests = tuple(files.values())
        return msgspec.structs.replace(
            self, files=tuple(files), digests=digests if any(digests) else ()
        )

    @property
    def lack(self) -> str:
        """A description of what keeps the hour from being complete, whatever agents report: rows
        that agents did not send, or that a rebuild did not restore. Empty without such."""
        if self.altered or not self.whole:
            return self.altered
        lost = self.whole - self.rows
        number = f"{lost:,} of its {self.whole:,} rows" if lost > 0 else "rows"
        return f"{number}, which the brokers no longer had when it was rebuilt"


class AlteredOffsets(msgspec.Struct, frozen=True, array_like=True):
    """Offsets with batches that are not what an agent has signed."""

    first: int
    next_offset: int
    reason: str


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """The records of one partition and leader epoch that a run read, for the ledger."""

    topic: str
    topic_id: str
    cluster: str
    partition: int
    first: int
    next_offset: int
    leader_epoch: int
    no_events: int
    missing: ClosedIntervals = ()  # offsets that were gone, and given up
    windows: tuple[LandedWindow, ...]
    late: dict[int, int] = {}  # by window: rows that came after their hour was complete
    sources: dict[str, ClosedIntervals] = {}  # the events that became rows
    uncompared: ClosedIntervals = ()  # offsets that were not compared with agents' digests
    altered: tuple[AlteredOffsets, ...] = ()


class Collision(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive events at consecutive offsets that became dead letters, because other events have
    the same source and seq, but different content. `kept` is the offset of the first of those other
    events."""

    topic: str
    topic_id: str
    partition: int
    leader_epoch: int
    first: int
    source: str
    seq: int
    events: int
    kept_partition: int
    kept: int  # -1: it is no longer in the log
    from_time: int  # the range of the events' times, milliseconds
    to_time: int


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """A file beside the rows: `_SUCCESS`, `_INCOMPLETE`, `_LATE-{run}`, `_CERTIFICATE.json`,
    `_common_metadata` or `_complete_hours.json`; or the table's `newest_certificate.json`."""

    path: str  # relative to the root
    content: str = ""
    data: bytes = b""  # instead of `content`, if binary

    @property
    def written(self) -> bytes:
        """The file's content; empty if the file is removed."""
        return self.data or self.content.encode()


class LedgerJournal(msgspec.Struct, frozen=True, kw_only=True):
    """The journal of a run's ledger entries and their parameters. They are recorded here, so that
    the entries do not depend on when they are written, or on the configuration at that time."""

    source: str  # the same for all runs of a commit log, and unique to it
    cluster: str
    destination: str  # the root's name when the first run was committed
    window_millis: int
    origins: dict[str, str] = {}  # of mirrored topics, as in their config
    key: str = ""  # the fingerprint of the key that proves the entries; empty: they have no proofs


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    run: int
    kind: RunKind
    table: str
    committed: int  # milliseconds
    loader: str  # host, process, version of Penstock
    topics: tuple[TopicState, ...]
    adds: tuple[Added, ...] = ()
    removes: tuple[str, ...] = ()  # replaced files, relative to the root
    kept_in: str = ""  # the folder to which they are moved; empty: they are deleted
    markers: tuple[Marker, ...] = ()
    passages: tuple[Passage, ...] = ()
    rebuilt: tuple[Hour, ...] = ()
    dead: dict[str, int] = {}  # by reason
    duplicates: int = 0
    collisions: tuple[Collision, ...] = ()
    hours: dict[Hour, HourState] = {}
    sources: tuple[KnownSources, ...] = ()
    # All columns that the table ever had, as Spark's JSON. If a column's field has had other names
    # than the column's, these are in its metadata, the last first: `{"names":["customer","user"]}`.
    schema: str = ""
    format: str = ""  # of its files
    header: str = ""  # flat or nested; empty: events have none
    ledger_seq: int = 0  # ledger entries of earlier runs
    ledger_entries: int = 0  # of this run
    ledger: LedgerJournal | None = None  # None: nothing was ever written to the ledger
    schema_number: int = 0  # grows when columns of `schema` change; 0: by an earlier Penstock
    reason: RewriteReason | None = None  # of a run of kind REWRITE
    # The run with whose hours and sources those of this manifest make up the state; 0: this
    # manifest has all of them.
    since: int = 0
    gone_hours: tuple[Hour, ...] = ()  # of that run, not in the state any more
    gone_sources: dict[str, tuple[str, ...]] = {}  # likewise, by topic
    complete: Intervals = ()  # all complete hours, also those without rows, which `hours` lacks
    newest_certificate: Issued | None = None  # of the table
