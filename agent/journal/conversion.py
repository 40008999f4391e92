"""Converts the agent's values to journal entries and back, with a function for each direction."""

import os
from collections.abc import Iterable, Iterator
from typing import Final

from agent.accounting.alterations import Alteration, Altered, AlteredText
from agent.accounting.parcels import BatchKind, Eventless, Outgoing
from agent.accounting.runs import (
    Excepted,
    Fate,
    Fingerprint,
    KnownSource,
    Progress,
    Run,
    SourceId,
    WindowCount,
)
from agent.history.blind_times import Looked, LookedAt, Patterns, Stamp, Traces, Unwatched
from agent.history.clock_setting import ClockSetting
from agent.history.position import HistoryPosition, Pending
from agent.journal.entries import (
    AlteredEntry,
    EventlessEntry,
    EventlessStatement,
    FinishedStatement,
    FolderEntry,
    HistoryEntry,
    LookedEntry,
    NumberingEntry,
    OpenEntry,
    OutgoingEntry,
    PartitionEntry,
    RunEntry,
    ShippedStatement,
    SourceEntry,
    StatementEntry,
    UnwatchedEntry,
)
from agent.journal.state import (
    Chosen,
    Finished,
    NotSeen,
    Numbers,
    OpenBatch,
    Shipped,
    Statement,
    WindowPassed,
)
from client.producing.delivery import Batch, TopicPartition
from client.producing.identity import Identity

_KINDS: Final = {BatchKind.EVENTS: 1, BatchKind.DEAD_LETTERS: 2, BatchKind.LEDGER: 3}
_KIND_OF: Final = {number: kind for kind, number in _KINDS.items()}
_FATE_OF: Final = {str(fate): fate for fate in Fate}
_ALTERATION_OF: Final = {str(kind): kind for kind in Alteration}


# To entries


def run_entry(run: Run) -> RunEntry:
    return (
        run.source,
        run.seq,
        run.events,
        run.position,
        run.end_position,
        run.lines,
        tuple(
            (
                excepted_lines.fate.value,
                excepted_lines.count,
                excepted_lines.bytes,
                text(excepted_lines.reason),
            )
            for excepted_lines in run.excepted
        )
        if run.excepted
        else (),
    )


def outgoing_entry(outgoing: Outgoing) -> OutgoingEntry:
    batch = outgoing.batch
    return OutgoingEntry(
        outgoing.number,
        _KINDS[outgoing.kind],
        batch.target.topic,
        batch.target.partition,
        len(batch.data),
        tuple(map(run_entry, outgoing.runs)),
        tuple((window.start, window.events) for window in outgoing.windows),
        tuple(outgoing.delays),
        tuple(outgoing.covers),
        outgoing.window_millis,
    )


def outgoing_entries(batches: Iterable[Outgoing]) -> tuple[OutgoingEntry, ...]:
    return tuple(map(outgoing_entry, batches))


def eventless_entries(eventless: Iterable[Eventless]) -> tuple[EventlessEntry, ...]:
    return tuple(
        (eventless_run.number, eventless_run.topic, run_entry(eventless_run.run))
        for eventless_run in eventless
    )


def source_entry(known: KnownSource, progress: Progress) -> SourceEntry:
    return SourceEntry(
        known.id,
        known.input,
        known.topic,
        os.fsencode(known.path),
        known.device,
        known.inode,
        known.fingerprint.size,
        known.fingerprint.digest,
        progress.position,
        progress.seq,
        progress.dead_seq,
        progress.mark,
        os.fsencode(known.last_path),
        known.size,
        known.finished,
        known.seen_millis,
        os.fsencode(known.real_path),
        known.born_ns,
        known.begun_ns,
        known.forgotten_before,
        known.fingerprint.shorter,
        known.destroyed_up_to,
    )


def numbering_entry(number: int, numbers: Numbers) -> NumberingEntry:
    return (number, *numbers.identity, numbers.base_sequence, numbers.crc)


def open_entry(batch: OpenBatch) -> OpenEntry:
    numbers = None
    if batch.numbers is not None:
        numbers = numbering_entry(batch.outgoing.number, batch.numbers)
    return OpenEntry(outgoing_entry(batch.outgoing), numbers, batch.place)


def statement_entry(statement: Shipped | Eventless | Finished | NotSeen) -> StatementEntry:
    if isinstance(statement, Shipped):
        return ShippedStatement(
            statement.number,
            statement.topic,
            statement.topic_id,
            statement.partition,
            statement.leader_epoch,
            statement.base_offset,
            statement.offsets,
            tuple(
                (window.start, window.events, window.bytes, window.crc_sum)
                for window in statement.windows
            ),
            tuple(map(run_entry, statement.runs)),
            statement.delays,
            statement.window_millis,
            statement.digest,
        )
    if isinstance(statement, Eventless):
        return EventlessStatement(statement.number, statement.topic, run_entry(statement.run))
    if isinstance(statement, NotSeen):
        return unwatched_entry(statement)
    return FinishedStatement(
        statement.number,
        statement.source,
        statement.topic,
        os.fsencode(statement.path),
        statement.events,
        statement.size,
    )


def altered_entry(statement: AlteredText) -> AlteredEntry:
    altered = statement.altered
    return AlteredEntry(
        statement.number,
        statement.topic,
        statement.input,
        statement.source,
        os.fsencode(statement.path),
        altered.kind.value,
        altered.lines,
        altered.count,
        text(altered.name),
        altered.hint,
        statement.from_millis,
        statement.to_millis,
    )


def altered_entries(statements: Iterable[AlteredText]) -> tuple[AlteredEntry, ...]:
    return tuple(map(altered_entry, statements))


def unwatched_entry(statement: NotSeen) -> UnwatchedEntry:
    unwatched = statement.unwatched
    return UnwatchedEntry(
        statement.number,
        unwatched.topic,
        os.fsencode(unwatched.path),
        unwatched.source,
        unwatched.position,
        unwatched.from_millis,
        unwatched.to_millis,
        unwatched.traces.value,
        text(unwatched.reason),
    )


def looked_entry(at: LookedAt) -> LookedEntry:
    return LookedEntry(
        at.input,
        at.millis,
        at.caught_up_millis,
        at.booted_millis,
        tuple((os.fsencode(path), *stamp) for path, stamp in at.folders.items()),
        tuple(map(os.fsencode, at.gone)),
        at.is_whole,
        tuple(map(os.fsencode, at.patterns.paths)),
        tuple(map(os.fsencode, at.patterns.exclude)),
        at.has_more,
        at.clock,
    )


def history_entry(position: HistoryPosition, before: HistoryPosition | None = None) -> HistoryEntry:
    inputs = position.inputs if before is None or position.inputs != before.inputs else None
    return HistoryEntry(position.epoch, position.number, position.pending, inputs)


def text(value: str) -> str:
    """The text without surrogates, which UTF-8 cannot encode."""
    return value if value.isascii() else value.encode(errors="replace").decode()


# From entries


def run_of(entry: RunEntry) -> Run:
    source, seq, events, position, end_position, lines, excepted = entry
    reasons = tuple(
        Excepted(_FATE_OF[fate], count, size, reason) for fate, count, size, reason in excepted
    )
    return Run(SourceId(source), seq, events, position, end_position, lines, reasons)


def outgoing_of(entry: OutgoingEntry, data: bytes) -> Outgoing:
    return Outgoing(
        entry.number,
        _KIND_OF[entry.kind],
        Batch(TopicPartition(entry.topic, entry.partition), data),
        tuple(map(run_of, entry.runs)),
        tuple(WindowCount(*window) for window in entry.windows),
        entry.delays,
        entry.covers,
        entry.window_millis,
    )


def outgoing_all(entries: Iterable[OutgoingEntry], body: bytes) -> Iterator[Outgoing]:
    """Converts entries to batches, whose bytes are joined in `body`."""
    start = 0
    for entry in entries:
        yield outgoing_of(entry, body[start : start + entry.size])
        start += entry.size


def eventless_of(entry: EventlessEntry) -> Eventless:
    number, topic, run = entry
    return Eventless(number, topic, run_of(run))


def source_of(entry: SourceEntry) -> KnownSource:
    return KnownSource(
        id=SourceId(entry.id),
        input=entry.input,
        topic=entry.topic,
        path=os.fsdecode(entry.path),
        device=entry.device,
        inode=entry.inode,
        fingerprint=Fingerprint(entry.fingerprint_size, entry.fingerprint, entry.shorter),
        progress=Progress(entry.position, entry.seq, entry.dead_seq, entry.mark),
        last_path=os.fsdecode(entry.last_path),
        size=entry.size,
        finished=entry.finished,
        seen_millis=entry.seen_millis,
        real_path=os.fsdecode(entry.real_path),
        born_ns=entry.born_ns,
        begun_ns=entry.begun_ns,
        forgotten_before=entry.forgotten_before,
        destroyed_up_to=entry.destroyed_up_to,
    )


def numbers_of(entry: NumberingEntry) -> Numbers:
    _, producer_id, epoch, base_sequence, crc = entry
    return Numbers(Identity(producer_id, epoch), base_sequence, crc)


def open_of(entry: OpenEntry, data: bytes) -> OpenBatch:
    numbers = None if entry.numbers is None else numbers_of(entry.numbers)
    return OpenBatch(outgoing_of(entry.outgoing, data), numbers, entry.place)


def statement_of(entry: StatementEntry) -> Statement:
    if isinstance(entry, ShippedStatement):
        return Shipped(
            entry.number,
            entry.topic,
            entry.topic_id,
            entry.partition,
            entry.leader_epoch,
            entry.base_offset,
            entry.offsets,
            tuple(WindowPassed(*window) for window in entry.windows),
            tuple(map(run_of, entry.runs)),
            entry.delays,
            entry.window_millis,
            entry.digest,
        )
    if isinstance(entry, EventlessStatement):
        return eventless_of((entry.number, entry.topic, entry.run))
    if isinstance(entry, UnwatchedEntry):
        return not_seen_of(entry)
    path = os.fsdecode(entry.path)
    source = SourceId(entry.source)
    return Finished(entry.number, source, entry.topic, path, entry.events, entry.size)


def altered_of(entry: AlteredEntry) -> AlteredText:
    kind = _ALTERATION_OF.get(entry.kind, Alteration.OTHER)
    return AlteredText(
        entry.number,
        entry.topic,
        entry.input,
        SourceId(entry.source),
        os.fsdecode(entry.path),
        Altered(kind, entry.lines, entry.count, entry.name, entry.hint),
        entry.from_millis,
        entry.to_millis,
    )


def not_seen_of(entry: UnwatchedEntry) -> NotSeen:
    unwatched = Unwatched(
        entry.topic,
        os.fsdecode(entry.path),
        SourceId(entry.source),
        entry.position,
        entry.from_millis,
        entry.to_millis,
        Traces(entry.traces),
        entry.reason,
    )
    return NotSeen(entry.number, unwatched)


def looked_of(entry: LookedEntry) -> LookedAt:
    return LookedAt(
        entry.input,
        entry.millis,
        entry.caught_up_millis,
        entry.booted_millis,
        dict(map(_folder_of, entry.folders)),
        tuple(map(os.fsdecode, entry.gone)),
        is_whole=entry.is_whole,
        patterns=Patterns(
            tuple(map(os.fsdecode, entry.paths)), tuple(map(os.fsdecode, entry.exclude))
        ),
        has_more=entry.has_more,
        clock=ClockSetting(*entry.clock),
    )


def history_of(entry: HistoryEntry, before: HistoryPosition | None) -> HistoryPosition:
    inputs = entry.inputs
    if inputs is None:
        inputs = before.inputs if before is not None else ()
    return HistoryPosition(
        entry.epoch, entry.number, tuple(Pending(*pending) for pending in entry.pending), inputs
    )


def _folder_of(entry: FolderEntry) -> tuple[str, Stamp]:
    return os.fsdecode(entry[0]), Stamp(*entry[1:])


def looked_at(name: str, looked: Looked) -> LookedAt:
    """The complete state, as a `LookedAt`."""
    return LookedAt(
        name,
        looked.millis,
        looked.caught_up_millis,
        looked.booted_millis,
        looked.folders,
        (),
        is_whole=True,
        patterns=looked.patterns,
        has_more=looked.has_more,
        clock=looked.clock,
    )


def chosen_of(entry: PartitionEntry) -> Chosen:
    return Chosen(entry.topic_id, entry.partition, entry.partitions)
