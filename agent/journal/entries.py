"""Entries as they are written down: MessagePack, each value an array of its fields.

    BEGIN           first in every file: whose journal it is
    STATE           a part of everything there was when the file was begun
    OPEN            the same, of one open batch; its bytes are the frame's body
    STANDS          the file holds all that its predecessor held, and from here on takes its place
    SOURCE, PARCEL, NUMBERED, ACKNOWLEDGED, REPLACED, FINISHED, PARTITION, FORGOTTEN, OFFSET,
    UNWATCHED, LOOKED, HISTORY
                    what the methods of `Journal` are told; batches' bytes are the frame's body

The format is this module's own, and does not follow the classes of the agent: a field may be added
at the end, with a default, and nothing else may change within a version. Paths are bytes, since
names of files need not be text.
"""

from enum import IntEnum

import msgspec


class EntryKind(IntEnum):
    """What an entry says. A number is never given to another kind."""

    BEGIN = 1
    STATE = 2
    OPEN = 3
    STANDS = 4
    SOURCE = 10
    PARCEL = 11
    NUMBERED = 12
    ACKNOWLEDGED = 13
    REPLACED = 14
    FINISHED = 15
    PARTITION = 16
    FORGOTTEN = 17
    OFFSET = 18
    UNWATCHED = 19
    LOOKED = 20
    HISTORY = 21


class _Array(msgspec.Struct, frozen=True, array_like=True, gc=False):
    pass


class BeginEntry(_Array, frozen=True):
    salt: int
    generation: int
    agent_id: str
    machine_id: str
    path: bytes
    device: int
    inode: int


ExceptedEntry = tuple[str, int, int, str]
RunEntry = tuple[str, int, int, int, int, int, tuple[ExceptedEntry, ...]]
NumberingEntry = tuple[int, int, int, int, int]  # number, producer id, epoch, base sequence, CRC


class SourceEntry(_Array, frozen=True):
    id: str
    input: str
    topic: str
    path: bytes
    device: int
    inode: int
    fingerprint_size: int
    fingerprint: bytes
    position: int
    seq: int
    dead_seq: int
    mark: int
    last_path: bytes
    size: int
    finished: bool
    seen_millis: int
    real_path: bytes = b""
    born_ns: int = 0
    begun_ns: int = 0
    forgotten_before: int = -1
    shorter: bytes = b""  # of the fingerprint
    destroyed_up_to: int = 0


class OutgoingEntry(_Array, frozen=True):
    number: int
    kind: int
    topic: str
    partition: int
    size: int
    runs: tuple[RunEntry, ...]
    windows: tuple[tuple[int, int], ...]
    delays: tuple[int, ...]
    covers: tuple[int, ...]
    window_millis: int


EventlessEntry = tuple[int, str, RunEntry]


class AlteredEntry(_Array, frozen=True):
    number: int
    topic: str
    input: str
    source: str
    path: bytes
    kind: str
    lines: int
    count: int
    name: str
    hint: str
    from_millis: int
    to_millis: int


class ParcelEntry(_Array, frozen=True):
    batches: tuple[OutgoingEntry, ...]
    eventless: tuple[EventlessEntry, ...]
    progress: tuple[tuple[str, int, int, int, int], ...]
    altered: tuple[AlteredEntry, ...] = ()


class ReplacedEntry(_Array, frozen=True):
    number: int
    batches: tuple[OutgoingEntry, ...]
    eventless: tuple[EventlessEntry, ...]


class NumberedEntry(_Array, frozen=True):
    numbers: tuple[NumberingEntry, ...]


class AcknowledgedEntry(_Array, frozen=True):
    number: int
    base_offset: int
    leader_epoch: int


class FinishedEntry(_Array, frozen=True):
    source: str
    number: int
    millis: int


class PartitionEntry(_Array, frozen=True):
    topic: str
    topic_id: str
    partition: int
    partitions: int


class ForgottenEntry(_Array, frozen=True):
    source: str


class OffsetEntry(_Array, frozen=True):
    topic: str
    partition: int
    offset: int


class UnwatchedEntry(_Array, frozen=True, tag="u"):
    """The entry, and the statement."""

    number: int
    topic: str
    path: bytes
    source: str
    position: int
    from_millis: int
    to_millis: int
    traces: str
    reason: str


FolderEntry = tuple[bytes, int, int, int, int, bool]  # path, device, inode, mtime, ctime, sure


class LookedEntry(_Array, frozen=True):
    """Of an input: what is new since the last one. In a part of the state, all there is. `paths`
    and `exclude` are its patterns; without paths they are as before."""

    input: str
    millis: int
    caught_up_millis: int
    booted_millis: int
    folders: tuple[FolderEntry, ...]
    gone: tuple[bytes, ...]
    is_whole: bool
    paths: tuple[bytes, ...] = ()
    exclude: tuple[bytes, ...] = ()
    has_more: bool = False


class HistoryEntry(_Array, frozen=True):
    """Without `inputs`, they are as before."""

    epoch: str
    number: int
    pending: tuple[tuple[int, int], ...]
    inputs: tuple[str, ...] | None = None


class OpenEntry(_Array, frozen=True):
    outgoing: OutgoingEntry
    numbers: NumberingEntry | None
    place: tuple[int, ...]


class ShippedStatement(_Array, frozen=True, tag="s"):
    number: int
    topic: str
    topic_id: str
    partition: int
    leader_epoch: int
    base_offset: int
    offsets: int
    windows: tuple[tuple[int, int, int, int], ...]
    runs: tuple[RunEntry, ...]
    delays: tuple[int, ...]
    window_millis: int


class EventlessStatement(_Array, frozen=True, tag="e"):
    number: int
    topic: str
    run: RunEntry


class FinishedStatement(_Array, frozen=True, tag="f"):
    number: int
    source: str
    topic: str
    path: bytes
    events: int
    size: int


StatementEntry = ShippedStatement | EventlessStatement | FinishedStatement | UnwatchedEntry


class StateEntry(_Array, frozen=True):
    """Several of these make up the whole."""

    sources: tuple[SourceEntry, ...] = ()
    statements: tuple[StatementEntry, ...] = ()
    withheld: tuple[tuple[int, int], ...] = ()
    ending: tuple[tuple[str, int], ...] = ()
    leaving: tuple[str, ...] = ()
    partitions: tuple[PartitionEntry, ...] = ()
    acknowledged_offsets: tuple[tuple[str, int, int], ...] = ()
    ledger_seq: int = 0
    next_number: int = 0
    given_up: int = 0
    looked: tuple[LookedEntry, ...] = ()
    history: HistoryEntry | None = None
    altered: tuple[tuple[int, AlteredEntry], ...] = ()  # each with its place among the statements


class StandsEntry(_Array, frozen=True):
    """The counters as they are now: parts of the state may be lost, these must not go back."""

    ledger_seq: int
    next_number: int
