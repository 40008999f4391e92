"""The journal: keeps sources, open batches and ledger statements over restarts and crashes.

It has these files in `directory`, which must be private and is locked:

    .lock                             held as long as the journal is open
    journal-{generation}.log          the newest has everything, the previous one what it began with
    ledger-numbers                    the numbers of ledger entries that were handed out
    signing-key, signing-key.pub      the agent's key, which belongs to this journal

A method's entry is written when it returns, in the order of the calls of all threads. With `sync`,
parcels and numbers are on disk then; an entry of the ledger always is, with everything before it.
A method that raises JournalFull has changed nothing that counts, and can be repeated with the same
arguments; `acknowledged` never raises it, since an acknowledgement stays true: it is written with
the next entry.

A crash loses only the entry that was being written. Losing an acknowledgement costs a lookup in the
log at the next start; losing a parcel, reading its lines again; losing numbers nothing, since
batches are sent after `numbered` has returned.

Batches' bytes are in memory once, as the parcel brought them.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from agent.accounting.parcels import BatchKind, Eventless, Outgoing, Parcel
from agent.accounting.runs import KnownSource, SourceId
from agent.history.blind_times import LookedAt, Unwatched
from agent.history.position import HistoryPosition
from agent.journal import conversion, entries
from agent.journal.binding import Binding
from agent.journal.contents import MOST_WAITING, Numbering
from agent.journal.entries import EntryKind
from agent.journal.frames import Buffer, framed
from agent.journal.ledger_numbers import LedgerNumbers
from agent.journal.opening import OpenedJournal, lock, opened
from agent.journal.replay import encode
from agent.journal.state import Chosen, JournalState, NotSeen, OpenBatch, Statement
from agent.journal.writer import JournalWriter
from client.producing.delivery import TopicPartition
from ground.files.directory_lock import DirectoryLock
from ledger.source_ids import new_source_id


class Sizes(msgspec.Struct, frozen=True):
    """Sizes for metrics. `given_up` counts statements dropped because too many waited."""

    file_bytes: int
    generation: int
    open_batches: int
    open_bytes: int
    sources: int
    statements: int
    given_up: int
    longest_stand: float


class Journal:
    """The journal of an agent. Thread-safe."""

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        sync: bool,
        limit_bytes: int,
        host_binding: Binding,
        ledger: bool = True,
    ) -> tuple[Self, JournalState]:
        """Opens or creates the journal. Without `ledger`, no statements are kept. Raises
        JournalError."""
        directory_lock = lock(directory)
        try:
            parts = opened(directory, host_binding, ledger=ledger)
            journal = cls(parts, directory_lock, sync=sync, limit_bytes=limit_bytes)
        except BaseException:
            directory_lock.close()
            raise
        return journal, journal._state(parts)

    def __init__(
        self, parts: OpenedJournal, directory_lock: DirectoryLock, *, sync: bool, limit_bytes: int
    ) -> None:
        self._directory_lock = directory_lock
        self._contents: Final = parts.contents
        self._writer: Final = JournalWriter(
            parts.file,
            parts.generation,
            parts.stood_at,
            parts.owner,
            parts.contents,
            sync=sync,
            limit_bytes=limit_bytes,
        )
        self._lock: Final[threading.Lock] = self._writer.lock
        self._next_number = parts.contents.next_number
        self._together: int | None = None  # the thread that is within `together`
        self.key: Final = parts.key
        directory, agent_id = parts.file.path.parent, parts.contents.agent_id
        self._ledger_numbers: Final = LedgerNumbers(directory, agent_id)
        self._hand_out_numbers()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Changes

    def flush_first(self, flush: Callable[[], None]) -> None:
        """Calls `flush` before each flush of the journal."""
        self._writer.before_flush = flush

    @contextmanager
    def together(self) -> Iterator[None]:
        """Writes this thread's entries about files within the block in one append, or earlier if
        another thread writes. If the process dies while writing, some entries may be lost. Raises
        JournalFull at the end of the block; then the entries are written before anything else."""
        self._together = threading.get_ident()
        try:
            yield
        finally:
            self._together = None
            with self._lock:
                if self._writer.has_postponed:
                    self._writer.prepare()
                    self._writer.append(())
                    self._writer.renew_if_due()

    def _append(self, pieces: list[Buffer]) -> None:
        """Appends an entry, or postpones it within `together`."""
        if self._together == threading.get_ident():
            self._writer.postpone(pieces)
        else:
            self._writer.append(pieces)

    def source(self, known: KnownSource) -> None:
        """Records a new source, a new name, or a longer fingerprint. Its progress is taken the
        first time only; `finished` ends it."""
        pieces = self._framed(
            EntryKind.SOURCE, encode(conversion.source_entry(known, known.progress))
        )
        with self._lock:
            self._writer.prepare()
            self._append(pieces)
            self._contents.source(known)
            self._writer.renew_if_due()

    def parcel(self, parcel: Parcel) -> None:
        """Records a parcel, all or nothing. Its sources must be known."""
        entry = entries.ParcelEntry(
            conversion.outgoing_entries(parcel.batches),
            conversion.eventless_entries(parcel.eventless),
            tuple(
                (source, progress.position, progress.seq, progress.dead_seq, progress.mark)
                for source, progress in parcel.progress.items()
            ),
            conversion.altered_entries(parcel.altered) if parcel.altered else (),
        )
        body = [outgoing.batch.data for outgoing in parcel.batches]
        pieces = self._framed(EntryKind.PARCEL, encode(entry), body)
        with self._lock:
            self._writer.prepare()
            if not self._contents.has_taken(parcel):  # else a retry after a failed flush
                self._contents.check_parcel(parcel)
                self._writer.append(pieces)
                self._contents.parcel(parcel)
            mark = self._writer.written
            self._writer.renew_if_due()
        has_ledger = any(outgoing.kind is BatchKind.LEDGER for outgoing in parcel.batches)
        self._writer.make_durable(mark, anyway=has_ledger)
        if has_ledger:
            self._hand_out_numbers()

    def numbered(self, batches: Sequence[Numbering]) -> None:
        """Records the numbers under which batches are about to be sent for the first time: number
        in this journal, identity, base sequence, and the stamped batch's CRC."""
        entry = entries.NumberedEntry(
            tuple((number, *identity, base, crc) for number, identity, base, crc in batches)
        )
        pieces = self._framed(EntryKind.NUMBERED, encode(entry))
        with self._lock:
            self._writer.prepare()
            for number, *_ in batches:
                self._contents.open_batch(number)
            self._writer.append(pieces)
            self._contents.numbered(batches)
            mark = self._writer.written
        self._writer.make_durable(mark)

    def acknowledged(
        self, number: int, base_offset: int, leader_epoch: int = -1, digest: bytes = b""
    ) -> None:
        """Records that a batch was acknowledged, and adds a statement about it, with the batch's
        digest. The acknowledgement of a ledger's batch removes the statements in it."""
        entry = entries.AcknowledgedEntry(number, base_offset, leader_epoch, digest)
        pieces = self._framed(EntryKind.ACKNOWLEDGED, encode(entry))
        with self._lock:
            self._writer.check_open()
            self._contents.acknowledged(number, base_offset, leader_epoch, digest)
            self._writer.append_or_postpone(pieces)

    def replaced(
        self,
        number: int,
        batches: Sequence[Outgoing],
        eventless: Sequence[Eventless] = (),
    ) -> None:
        """Replaces an open batch by others in the same place: split, clamped, dead-lettered."""
        entry = entries.ReplacedEntry(
            number,
            conversion.outgoing_entries(batches),
            conversion.eventless_entries(eventless),
        )
        body = [batch.batch.data for batch in batches]
        pieces = self._framed(EntryKind.REPLACED, encode(entry), body)
        with self._lock:
            self._writer.prepare()
            self._contents.open_batch(number)
            self._contents.check_new(batches)
            self._writer.append(pieces)
            self._contents.replaced(number, batches, eventless)

    def finished(self, source: SourceId, now_millis: int) -> None:
        """Records the end of a source, which becomes a statement once everything is acknowledged. A
        later parcel of the source reopens it."""
        with self._lock:
            self._writer.prepare()
            self._contents.check_known((source,))
            if self._contents.known[source].finished:
                return
            number = self._take_number()
            entry = entries.FinishedEntry(source, number, now_millis)
            self._append(self._framed(EntryKind.FINISHED, encode(entry)))
            self._contents.finished(source, number, now_millis)

    def unwatched(self, unwatched: Unwatched) -> None:
        """Records a period in which a folder or source was not watched. If it names a source, the
        source has ended unseen, and is never reported as finished."""
        with self._lock:
            self._writer.prepare()
            source = unwatched.source
            if source:
                self._contents.check_known((source,))
                if self._contents.known[source].finished:
                    return
            statement = NotSeen(self._take_number(), unwatched)
            entry = conversion.unwatched_entry(statement)
            self._append(self._framed(EntryKind.UNWATCHED, encode(entry)))
            self._contents.unwatched(statement)

    def looked(self, at: Sequence[LookedAt]) -> None:
        """Records the scans of inputs, and the stamps of their folders. After a crash, the last
        scan that was written counts."""
        with self._lock:
            self._writer.prepare()
            for look in at:
                entry = conversion.looked_entry(look)
                self._append(self._framed(EntryKind.LOOKED, encode(entry)))
                self._contents.looked_at(look)
            self._writer.renew_if_due()

    def history(self, position: HistoryPosition) -> None:
        """Records the position up to which the history of names was processed."""
        with self._lock:
            self._writer.prepare()
            entry = conversion.history_entry(position, self._contents.history)
            self._append(self._framed(EntryKind.HISTORY, encode(entry)))
            self._contents.history_reached(position)
            self._writer.renew_if_due()

    def forget(self, source: SourceId) -> None:
        """Forgets a source once nothing of it is open or unpublished, unless it is journalled again
        before that."""
        pieces = self._framed(EntryKind.FORGOTTEN, encode(entries.ForgottenEntry(source)))
        with self._lock:
            self._writer.prepare()
            if source in self._contents.known:
                self._append(pieces)
                self._contents.forget(source)

    def partition(self, topic: str, topic_id: str, partition: int, partitions: int = 0) -> None:
        """Records the partition chosen for a topic. The choice is valid only for this topic id."""
        chosen = Chosen(topic_id, partition, partitions)
        entry = entries.PartitionEntry(topic, topic_id, partition, partitions)
        pieces = self._framed(EntryKind.PARTITION, encode(entry))
        with self._lock:
            self._writer.prepare()
            self._writer.append(pieces)
            self._contents.partition(topic, chosen)

    def begins(self, target: TopicPartition, offset: int) -> None:
        """Records that this agent's batches in the partition begin at this offset, so that earlier
        ones need not be searched."""
        entry = entries.OffsetEntry(*target, offset)
        pieces = self._framed(EntryKind.OFFSET, encode(entry))
        with self._lock:
            self._writer.prepare()
            if target not in self._contents.acknowledged_offsets:
                self._writer.append(pieces)
                self._contents.begins(target, offset)

    # Numbers

    def next_number(self) -> int:
        """A new number for a batch or statement: unique and ascending."""
        with self._lock:
            return self._take_number()

    def next_source(self) -> SourceId:
        return SourceId(new_source_id(self.key.public))

    @property
    def ledger_seq(self) -> int:
        """The number of the ledger's next entry. A parcel with batches of the ledger advances it by
        their records."""
        return self._contents.ledger_seq

    @property
    def ledger_head(self) -> bytes:
        """The head of the chain after the acknowledged ledger entries."""
        return self._contents.ledger_head

    # Queries

    @property
    def agent_id(self) -> str:
        return self._contents.agent_id

    @property
    def sources(self) -> tuple[KnownSource, ...]:
        with self._lock:
            return self._contents.sources()

    def known_source(self, source: SourceId) -> KnownSource | None:
        with self._lock:
            is_known = source in self._contents.known
            return self._contents.known_source(source) if is_known else None

    @property
    def moved(self) -> tuple[SourceId, ...]:
        """Sources that have moved to another file, until that is published."""
        with self._lock:
            return tuple(self._contents.moved)

    def moves_published(self, moved: Iterable[SourceId]) -> None:
        with self._lock:
            for source in moved:
                self._contents.moved.pop(source, None)

    @property
    def open_batches(self) -> tuple[OpenBatch, ...]:
        """The open batches, in the order in which they are sent."""
        with self._lock:
            return self._contents.open_in_order()

    @property
    def statements(self) -> tuple[Statement, ...]:
        """The statements that the ledger has not acknowledged, oldest first; if there are too many,
        essential ones come last."""
        with self._lock:
            return tuple(self._contents.statements.values())

    @property
    def unpublished(self) -> tuple[Statement, ...]:
        """The statements that can be published now. These are not in an open batch of the ledger. A
        statement about events without offsets also waits for the batches that may have these
        events."""
        with self._lock:
            return self._contents.unpublished()

    def chosen(self, topic: str) -> Chosen | None:
        return self._contents.partitions.get(topic)

    def acknowledged_offset(self, target: TopicPartition) -> int | None:
        """The last acknowledged offset, or the offset before the one passed to `begins`."""
        return self._contents.acknowledged_offsets.get(target)

    @property
    def ledger_keeps_up(self) -> bool:
        """Whether the ledger's backlog is below a tenth of its limit."""
        return self._contents.waiting < MOST_WAITING // 10

    @property
    def trouble(self) -> str | None:
        """The error of the last write; None if it succeeded."""
        return self._writer.trouble

    @property
    def sizes(self) -> Sizes:
        contents, writer = self._contents, self._writer
        with self._lock:
            return Sizes(
                file_bytes=writer.size,
                generation=writer.generation,
                open_batches=len(contents.open),
                open_bytes=contents.open_bytes,
                sources=len(contents.known),
                statements=len(contents.statements),
                given_up=contents.given_up,
                longest_stand=writer.longest_stand,
            )

    def close(self) -> None:
        """Flushes and closes the journal, and unlocks the directory."""
        if not self._directory_lock.closed:
            self._writer.close()
            self._directory_lock.close()

    def _take_number(self) -> int:
        number = self._next_number
        self._next_number += 1
        return number

    def _hand_out_numbers(self) -> None:
        """Hands out the numbers of all ledger entries. At most one parcel of them is open."""
        with self._lock:
            ledger_seq, head = self._contents.ledger_seq, self._contents.journalled_head()
        self._ledger_numbers.hand_out(ledger_seq, head)

    def _framed(self, kind: EntryKind, meta: bytes, body: Sequence[Buffer] = ()) -> list[Buffer]:
        return framed(kind, meta, body, salt=self._writer.salt)

    def _state(self, parts: OpenedJournal) -> JournalState:
        contents = self._contents
        return JournalState(
            agent_id=contents.agent_id,
            is_copy_of=parts.is_copy_of,
            copied=parts.copied,
            damage=parts.damage,
            lost_key=parts.lost_key,
            sources=contents.sources(),
            open=contents.open_in_order(),
            statements=tuple(contents.statements.values()),
            partitions=dict(contents.partitions),
            acknowledged_offsets=dict(contents.acknowledged_offsets),
            ledger_seq=contents.ledger_seq,
            looked=dict(contents.looked),
            is_torn=parts.is_torn,
            history=contents.history,
            ledger_head=contents.ledger_head,
        )
