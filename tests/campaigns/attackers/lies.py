"""The lies of a compromised broker, by topic and by entry.

It stores other batches than an agent sends, shows the loader other batches than it has stored, and
shows the audit, or the loader, other entries of an agent's journal than `_audit` has. Its own
counts are always those of a broker that has done nothing: it signs what it has stored, so where it
shows the loader something else, its statements agree with the agent's.

Entries of an agent have as many offsets as the agent wrote entries. A lie that adds an entry, or
holds one back for a while, moves the following ones to later offsets.
"""

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from ledger.names import LEDGER_TOPIC
from tests.system.altered_batches import (
    all_changed,
    rebuilt,
)
from wire.record_batches.batch import NO_PRODUCER, read_header
from wire.record_batches.records import Record, records

AGENT: Final = "agent"
LOADER: Final = "loader"
AUDIT: Final = "audit"
ROLES: Final = (AGENT, LOADER, AUDIT)

_HEADER_BYTES: Final = 48  # of an entry, with the schema's id, the time and the host

Change = Callable[[bytes], bytes | None]
Choice = Callable[[bytes], bool]  # of entries, by their values


def _nothing(batch: bytes) -> None:
    pass


class Lie(msgspec.Struct):
    """A lie about one batch of an agent."""

    stored: Callable[[bytes], bytes | None] = bytes
    """Makes the batch to store in its place; None for none."""
    follow: Callable[[bytes], object] = _nothing
    """Is done once the agent's batch, or that in its place, has been stored."""
    batch: bytes = b""
    """What the agent has sent."""
    base_offset: int = -1
    """Where the agent was told that it lies."""
    is_told: bool = False
    """Whether somebody has been lied to."""

    @property
    def offsets(self) -> range:
        count = read_header(self.batch).last_offset_delta + 1
        return range(self.base_offset, self.base_offset + count)


def entries_of(host: str) -> Choice:
    """The entries whose header names this host."""
    name = host.encode()
    return lambda value: bytes([2 * len(name)]) + name in value[:_HEADER_BYTES]


class EntryLies:
    """Lies about the next entries of one kind, to one kind of client."""

    def __init__(self, kind: str, count: int, change: Change | None = None) -> None:
        """`change` makes an altered or an invented entry of a true one; None if it cannot."""
        self.is_told = False
        self._kind = kind
        self._left = count
        self._change = change
        self._waiting: deque[Record] = deque()
        self._shown: dict[int, Record | None] = {}

    def shown(self, record: Record) -> Record | None:
        """Returns the record to show at this one's offset, the same each time."""
        if record.offset not in self._shown:
            content = self._next(record)
            self._shown[record.offset] = content and content._replace(offset=record.offset)
        return self._shown[record.offset]

    def _next(self, record: Record) -> Record | None:
        self._waiting.append(record)
        if not self._left:
            return self._waiting.popleft()
        match self._kind:
            case "hidden":
                self._told()
                self._waiting.popleft()
                return None
            case "reordered" if len(self._waiting) == 1:
                return None
            case "reordered":
                self._told()
                self._waiting.reverse()
                return self._waiting.popleft()
            case "repeated":
                self._told()
                return self._waiting[0]
            case _:
                return self._changed(record)

    def _changed(self, record: Record) -> Record | None:
        assert self._change is not None
        changed = self._change(record.value or b"")
        if changed is None:
            return self._waiting.popleft()
        self._told()
        if self._kind == "invented":
            return record._replace(value=changed, headers=())
        self._waiting.popleft()
        return record._replace(value=changed)

    def _told(self) -> None:
        self._left -= 1
        self.is_told = True


class BrokerLies:
    """All lies of one broker (`tests.system.lying_broker.Lies`)."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._next: dict[str, Lie] = {}
        self._under_way: dict[bytes, Lie] = {}
        self._ends: defaultdict[str, int] = defaultdict(int)
        self._views: defaultdict[tuple[str, str], dict[int, tuple[bytes, Lie]]] = defaultdict(dict)
        self._entries: defaultdict[str, list[tuple[Choice, EntryLies]]] = defaultdict(list)

    def store_next(self, topic: str, lie: Lie) -> None:
        """Lies about the next batch that an agent sends to the topic."""
        with self._lock:
            self._next[topic] = lie

    def show(self, role: str, topic: str, batch: bytes, shown: bytes) -> Lie:
        """Shows another batch in place of a stored one."""
        lie = Lie(batch=batch, base_offset=read_header(batch).base_offset)
        with self._lock:
            self._views[role, topic][lie.base_offset] = shown, lie
        return lie

    def show_entries(self, role: str, choice: Choice, lies: EntryLies) -> None:
        """Lies about the chosen ones of the following entries."""
        with self._lock:
            self._entries[role].append((choice, lies))

    # As the proxy asks

    def stored(self, topic: str, partition: int, batch: bytes) -> bytes | None:
        if topic not in self._next or read_header(batch).producer_id == NO_PRODUCER:
            return batch
        with self._lock:
            lie = self._under_way[batch] = self._next.pop(topic)
            lie.batch = batch
        return lie.stored(batch)

    def acknowledged(self, topic: str, partition: int, batch: bytes, base_offset: int) -> None:
        with self._lock:
            end = base_offset + read_header(batch).last_offset_delta + 1
            self._ends[topic] = max(self._ends[topic], end)
            lie = self._under_way.pop(batch, None)
        if lie is not None:
            lie.base_offset, lie.is_told = base_offset, True
            lie.follow(batch)

    def pretended(self, topic: str, partition: int, batch: bytes) -> int:
        with self._lock:
            lie = self._under_way.pop(batch)
            lie.base_offset, lie.is_told = self._ends[topic], True
            return lie.base_offset

    def shown(self, role: str, topic: str, partition: int, batches: bytes) -> bytes:
        with self._lock:
            if topic == LEDGER_TOPIC:
                entries = self._entries[role]
                return all_changed(batches, partial(_with_lies, entries)) if entries else batches
            view = self._views.get((role, topic), {})
            return all_changed(batches, partial(_viewed, view)) if view else batches


def _viewed(view: dict[int, tuple[bytes, Lie]], batch: bytes) -> bytes:
    shown, lie = view.get(read_header(batch).base_offset, (batch, None))
    if lie is not None and shown != batch:
        lie.is_told = True
    return shown


def _with_lies(entries: Sequence[tuple[Choice, EntryLies]], batch: bytes) -> bytes:
    if read_header(batch).is_control:
        return batch
    content = list(records(batch))
    shown = [_entry(record, entries) for record in content]
    return batch if shown == content else rebuilt(batch, [record for record in shown if record])


def _entry(record: Record, entries: Sequence[tuple[Choice, EntryLies]]) -> Record | None:
    for is_chosen, lies in entries:
        if is_chosen(record.value or b""):
            return lies.shown(record)
    return record
