"""What an agent remembers over restarts and crashes: sources, batches on their way, what to tell.

In `directory`, which nobody else may read or use meanwhile:

    .lock                             held as long as the journal is open
    journal-{generation}.log          the newest holds everything, the one before what it began with
    ledger-numbers                    which numbers of ledger entries were handed out

What a method was told is written down when it returns, in the order of the calls, whichever thread
they came from. With `sync`, parcels and numbers are on disk then; an entry of the ledger always is,
with all that was written before it. A method that raises JournalFull has changed nothing that
counts and can be called again with the same; `acknowledged` never raises it, since what it says
stays true: it is written down with the next entry.

A crash loses the entry that was being written, and nothing else. Losing an acknowledgement costs a
look into the log at the next start; losing a parcel, reading its lines again; losing numbers
nothing, as batches are sent after `numbered` has returned.

Batches' bytes are kept in memory once: those that the parcel brought.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from agent.history.blind_times import LookedAt, Unwatched
from agent.history.position import HistoryPosition
from agent.journal import conversion, entries
from agent.journal.binding import Binding
from agent.journal.contents import MOST_WAITING, Numbering
from agent.journal.entries import EntryKind
from agent.journal.frames import Buffer, framed
from agent.journal.ledger_numbers import LedgerNumbers
from agent.journal.opening import OpenedJournal, lock, new_id, opened
from agent.journal.replay import encode
from agent.journal.state import Chosen, JournalState, NotSeen, OpenBatch, Statement
from agent.journal.writing import JournalWriter
from agent.parcels import BatchKind, Eventless, Outgoing, Parcel
from agent.runs import KnownSource, SourceId
from client.delivery import TopicPartition
from ground.directory_lock import DirectoryLock


class Sizes(msgspec.Struct, frozen=True):
    """For metrics. `given_up` counts statements that were dropped, as too many waited."""

    file_bytes: int
    generation: int
    open_batches: int
    open_bytes: int
    sources: int
    statements: int
    given_up: int
    longest_stand: float


class Journal:
    """One agent's. Any thread."""

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
        """Raises JournalError. Without `ledger`, no statements are kept."""
        held = lock(directory)
        try:
            found = opened(directory, host_binding, ledger=ledger)
            journal = cls(found, held, sync=sync, limit_bytes=limit_bytes)
        except BaseException:
            held.close()
            raise
        return journal, journal._state(found)

    def __init__(
        self, found: OpenedJournal, held: DirectoryLock, *, sync: bool, limit_bytes: int
    ) -> None:
        self._held = held
        self._contents: Final = found.contents
        self._writer: Final = JournalWriter(
            found.file,
            found.generation,
            found.stood_at,
            found.owner,
            found.contents,
            sync=sync,
            limit_bytes=limit_bytes,
        )
        self._lock: Final[threading.Lock] = self._writer.lock
        self._next_number = found.contents.next_number
        self._together: int | None = None  # the thread that writes several things at once
        directory, agent_id = found.file.path.parent, found.contents.agent_id
        self._ledger_numbers: Final = LedgerNumbers(directory, agent_id)
        self._ledger_numbers.hand_out(found.contents.ledger_seq)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # What happened

    @contextmanager
    def together(self) -> Iterator[None]:
        """What this thread says of files within it is written at once: all of it or nothing, but
        for the death of the process amid writing, or if another thread has something to write.
        Raises JournalFull at its end; then it is written before anything else is."""
        self._together = threading.get_ident()
        try:
            yield
        finally:
            self._together = None
            with self._lock:
                if self._writer.owes:
                    self._writer.prepare()
                    self._writer.append(())
                    self._writer.renew_if_due()

    def _append(self, pieces: list[Buffer]) -> None:
        """Of what may be written together."""
        if self._together == threading.get_ident():
            self._writer.owe_later(pieces)
        else:
            self._writer.append(pieces)

    def source(self, known: KnownSource) -> None:
        """One that is new, was renamed, or whose fingerprint has grown. Its progress counts the
        first time only, and whether it is finished is for `finished` to say."""
        pieces = self._framed(
            EntryKind.SOURCE, encode(conversion.source_entry(known, known.progress))
        )
        with self._lock:
            self._writer.prepare()
            self._append(pieces)
            self._contents.source(known)
            self._writer.renew_if_due()

    def parcel(self, parcel: Parcel) -> None:
        """All of it or nothing. Its sources must be known."""
        entry = entries.ParcelEntry(
            conversion.outgoing_entries(parcel.batches),
            conversion.eventless_entries(parcel.eventless),
            tuple(
                (source, each.position, each.seq, each.dead_seq, each.mark)
                for source, each in parcel.progress.items()
            ),
            conversion.altered_entries(parcel.altered) if parcel.altered else (),
        )
        body = [each.batch.data for each in parcel.batches]
        pieces = self._framed(EntryKind.PARCEL, encode(entry), body)
        with self._lock:
            self._writer.prepare()
            if not self._contents.has_taken(parcel):  # the second try after a flush that failed
                self._contents.check_parcel(parcel)
                self._writer.append(pieces)
                self._contents.parcel(parcel)
            mark, ledger_seq = self._writer.written, self._contents.ledger_seq
            self._writer.renew_if_due()
        says_something = any(each.kind is BatchKind.LEDGER for each in parcel.batches)
        self._writer.make_durable(mark, anyway=says_something)
        if says_something:
            self._ledger_numbers.hand_out(ledger_seq)

    def numbered(self, batches: Sequence[Numbering]) -> None:
        """Batches that are about to be sent under numbers that nobody has seen: their number in
        this journal, identity, base sequence, and the stamped batch's CRC."""
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

    def acknowledged(self, number: int, base_offset: int, leader_epoch: int = -1) -> None:
        """It becomes a statement; one of the ledger ends the statements that it covers."""
        entry = entries.AcknowledgedEntry(number, base_offset, leader_epoch)
        pieces = self._framed(EntryKind.ACKNOWLEDGED, encode(entry))
        with self._lock:
            self._writer.check_open()
            self._contents.acknowledged(number, base_offset, leader_epoch)
            self._writer.owe(pieces)

    def replaced(
        self,
        number: int,
        batches: Sequence[Outgoing],
        eventless: Sequence[Eventless] = (),
    ) -> None:
        """These instead of it, at its place: split, clamped, dead-lettered."""
        entry = entries.ReplacedEntry(
            number,
            conversion.outgoing_entries(batches),
            conversion.eventless_entries(eventless),
        )
        body = [each.batch.data for each in batches]
        pieces = self._framed(EntryKind.REPLACED, encode(entry), body)
        with self._lock:
            self._writer.prepare()
            self._contents.open_batch(number)
            self._contents.check_new(batches)
            self._writer.append(pieces)
            self._contents.replaced(number, batches, eventless)

    def finished(self, source: SourceId, now_millis: int) -> None:
        """Nothing more will come of it. A statement says so once all of it is acknowledged. If it
        goes on all the same, a later parcel takes that back."""
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
        """A time that nobody can vouch for. A source that it names is over: its end was not seen,
        so nothing will say that it is finished."""
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
        """When files of inputs were looked at, and how their folders stood then. What could not be
        written is lost with the next crash: then the time before that counts."""
        with self._lock:
            self._writer.prepare()
            for each in at:
                entry = conversion.looked_entry(each)
                self._append(self._framed(EntryKind.LOOKED, encode(entry)))
                self._contents.looked_at(each)
            self._writer.renew_if_due()

    def history(self, position: HistoryPosition) -> None:
        """How far the history of names is gone through; after all that it led to."""
        with self._lock:
            self._writer.prepare()
            entry = conversion.history_entry(position, self._contents.history)
            self._append(self._framed(EntryKind.HISTORY, encode(entry)))
            self._contents.history_reached(position)
            self._writer.renew_if_due()

    def forget(self, source: SourceId) -> None:
        """At once, or when nothing of it is open and the ledger has said everything; not if it is
        told of again before that."""
        pieces = self._framed(EntryKind.FORGOTTEN, encode(entries.ForgottenEntry(source)))
        with self._lock:
            self._writer.prepare()
            if source in self._contents.known:
                self._append(pieces)
                self._contents.forget(source)

    def partition(self, topic: str, topic_id: str, partition: int, partitions: int = 0) -> None:
        """Chosen for life. Another topic id begins another life."""
        chosen = Chosen(topic_id, partition, partitions)
        entry = entries.PartitionEntry(topic, topic_id, partition, partitions)
        pieces = self._framed(EntryKind.PARTITION, encode(entry))
        with self._lock:
            self._writer.prepare()
            self._writer.append(pieces)
            self._contents.partition(topic, chosen)

    def begins(self, target: TopicPartition, offset: int) -> None:
        """Nothing of this agent lies in that partition before this offset: as long as nothing is
        acknowledged, its batches need not be looked for there."""
        entry = entries.OffsetEntry(*target, offset)
        pieces = self._framed(EntryKind.OFFSET, encode(entry))
        with self._lock:
            self._writer.prepare()
            if target not in self._contents.acknowledged_offsets:
                self._writer.append(pieces)
                self._contents.begins(target, offset)

    # Numbers

    def next_number(self) -> int:
        """Of a batch or an eventless run: ascending, never the same."""
        with self._lock:
            return self._take_number()

    def next_source(self) -> SourceId:
        return SourceId(new_id())

    @property
    def ledger_seq(self) -> int:
        """That of the ledger's next entry. A parcel with a batch of the ledger moves it on by the
        batch's records."""
        return self._contents.ledger_seq

    # What there is

    @property
    def agent_id(self) -> str:
        return self._contents.agent_id

    @property
    def sources(self) -> tuple[KnownSource, ...]:
        with self._lock:
            return self._contents.sources()

    def known_source(self, source: SourceId) -> KnownSource | None:
        with self._lock:
            known = source in self._contents.known
            return self._contents.known_source(source) if known else None

    @property
    def moved(self) -> tuple[SourceId, ...]:
        """Sources that have another file than they had, as long as that is not said."""
        with self._lock:
            return tuple(self._contents.moved)

    def moves_are_said(self, moved: Iterable[SourceId]) -> None:
        with self._lock:
            for each in moved:
                self._contents.moved.pop(each, None)

    @property
    def open_batches(self) -> tuple[OpenBatch, ...]:
        """In the order in which they are sent."""
        with self._lock:
            return self._contents.open_in_order()

    @property
    def statements(self) -> tuple[Statement, ...]:
        """All that the ledger has not acknowledged, the oldest first; where too many waited, what
        is never given up stands behind others."""
        with self._lock:
            return tuple(self._contents.statements.values())

    @property
    def unpublished(self) -> tuple[Statement, ...]:
        """Those of them that can be published now: no open batch of the ledger covers them, and of
        events that are stated without offsets no batch is open that may hold them."""
        with self._lock:
            return self._contents.unpublished()

    def chosen(self, topic: str) -> Chosen | None:
        return self._contents.partitions.get(topic)

    def acknowledged_offset(self, target: TopicPartition) -> int | None:
        """The last one, or the one before that of `begins`."""
        return self._contents.acknowledged_offsets.get(target)

    @property
    def ledger_keeps_up(self) -> bool:
        """Whether what waits for the ledger is less than a tenth of what may."""
        return self._contents.waiting < MOST_WAITING // 10

    @property
    def trouble(self) -> str | None:
        """What could not be written the last time; None when it could."""
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
        """What was told is on disk, and the directory others' to have."""
        if not self._held.closed:
            self._writer.close()
            self._held.close()

    def _take_number(self) -> int:
        number = self._next_number
        self._next_number += 1
        return number

    def _framed(self, kind: EntryKind, meta: bytes, body: Sequence[Buffer] = ()) -> list[Buffer]:
        return framed(kind, meta, body, salt=self._writer.salt)

    def _state(self, found: OpenedJournal) -> JournalState:
        contents = self._contents
        return JournalState(
            agent_id=contents.agent_id,
            is_copy_of=found.is_copy_of,
            copied=found.copied,
            damage=found.damage,
            sources=contents.sources(),
            open=contents.open_in_order(),
            statements=tuple(contents.statements.values()),
            partitions=dict(contents.partitions),
            acknowledged_offsets=dict(contents.acknowledged_offsets),
            ledger_seq=contents.ledger_seq,
            looked=dict(contents.looked),
            is_torn=found.is_torn,
            history=contents.history,
        )
