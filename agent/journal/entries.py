"""The format of journal entries: MessagePack, each value an array of its fields.

    BEGIN           first in every file: the owner of the journal
    STATE           a part of the contents when the file was begun
    OPEN            an open batch when the file was begun; its bytes are the frame's body
    STANDS          the file has everything that its predecessor has, and replaces it from here on
    SOURCE, PARCEL, NUMBERED, ACKNOWLEDGED, REPLACED, FINISHED, PARTITION, FORGOTTEN, OFFSET,
    UNWATCHED, LOOKED, HISTORY
                    the arguments of `Journal`'s methods; batches' bytes are the frame's body

The format is independent of the agent's classes: within a version, fields may only be added at the
end, with a default. Paths are bytes, since names of files need not be text.
"""

from enum import IntEnum

import msgspec


class EntryKind(IntEnum):
    """The kinds of entries. Numbers are never reused."""

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
    key: bytes = b""  # the public key


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
    digest: bytes = b""


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
    """An unwatched time, as an entry, and as a statement in the state."""

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
    """The changes of an input's look since the last entry; in STATE, the complete look. `paths` and
    `exclude` are its patterns; without paths they are unchanged."""

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
    clock: tuple[str, int] = ("", 0)  # its setting: see agent/history/clock_setting.py


class HistoryEntry(_Array, frozen=True):
    """The position in the history. Without `inputs`, the inputs are unchanged."""

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
    digest: bytes = b""


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
    altered: tuple[tuple[int, AlteredEntry], ...] = ()  # with their indexes among the statements
    ledger_head: bytes = b""


class StandsEntry(_Array, frozen=True):
    """The counters, which must not decrease even if parts of the state are lost."""

    ledger_seq: int
    next_number: int
