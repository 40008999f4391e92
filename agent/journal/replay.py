"""Converts contents to entries, and applies entries to contents.

`apply` applies an entry. `salvage` applies an entry after damage, as far as it is true regardless
of what was lost: numbers and acknowledgements of batches, sources, partitions, counters, unwatched
times. It does not advance sources. It takes only the first look of an input, and none if one is
known: the lost entries may have had statements that precede a later look.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, TypeVar

import msgspec

from agent.accounting.alterations import AlteredText
from agent.accounting.parcels import BatchKind, Parcel
from agent.accounting.runs import Progress, SourceId
from agent.journal import conversion, entries
from agent.journal.contents import InconsistentEntry, JournalContents
from agent.journal.entries import EntryKind
from agent.journal.frames import Buffer, JournalFrame
from agent.journal.state import Statement
from client.producing.delivery import TopicPartition
from client.producing.identity import Identity

_AT_ONCE: Final = 500  # sources or statements in one entry of a snapshot

_Item = TypeVar("_Item")

encode: Final = msgspec.msgpack.Encoder().encode

Entry = tuple[EntryKind, bytes, tuple[Buffer, ...]]


def snapshot(contents: JournalContents) -> Iterator[Entry]:
    """The contents as entries for `apply`, in small parts, so that other threads can run."""
    state_entry = entries.StateEntry(
        withheld=tuple(contents.withheld.items()),
        ending=tuple(contents.ending.items()),
        leaving=tuple(contents.leaving),
        partitions=tuple(
            entries.PartitionEntry(
                topic,
                chosen.topic_id,
                chosen.partition,
                chosen.partitions,
            )
            for topic, chosen in contents.partitions.items()
        ),
        acknowledged_offsets=tuple(
            (*target, offset) for target, offset in contents.acknowledged_offsets.items()
        ),
        ledger_seq=contents.ledger_seq,
        next_number=contents.next_number,
        given_up=contents.given_up,
        history=None if contents.history is None else conversion.history_entry(contents.history),
        ledger_head=contents.ledger_head,
    )
    yield EntryKind.STATE, encode(state_entry), ()
    for name, look in contents.looked.items():
        looked_entry = conversion.looked_entry(conversion.looked_at(name, look))
        yield EntryKind.STATE, encode(entries.StateEntry(looked=(looked_entry,))), ()
    for ids in _groups(iter(contents.known)):
        sources = tuple(
            conversion.source_entry(contents.known[source], contents.progress[source])
            for source in ids
        )
        yield EntryKind.STATE, encode(entries.StateEntry(sources=sources)), ()
    for group in _groups(iter(contents.statements.values())):
        yield EntryKind.STATE, encode(_stated(group)), ()
    for batch in contents.open.values():
        yield EntryKind.OPEN, encode(conversion.open_entry(batch)), (batch.outgoing.batch.data,)


def stands(contents: JournalContents) -> bytes:
    return encode(entries.StandsEntry(contents.ledger_seq, contents.next_number))


def apply(contents: JournalContents, frame: JournalFrame) -> None:
    """Applies an entry. Raises `InconsistentEntry` if it does not fit the contents."""
    try:
        _APPLY[EntryKind(frame.kind)](contents, frame)
    except InconsistentEntry:
        raise
    except (KeyError, ValueError, TypeError, msgspec.MsgspecError) as error:
        raise InconsistentEntry(f"at byte {frame.position}: {error}") from error


def salvage(contents: JournalContents, frame: JournalFrame) -> None:
    if frame.kind in _TRUE_ANYWAY:
        offsets = contents.acknowledged_offsets.copy()
        try:
            apply(contents, frame)
        except InconsistentEntry:
            return  # it refers to something lost
        if frame.kind == EntryKind.ACKNOWLEDGED:
            _look_from_there_still(contents, offsets)
    elif frame.kind == EntryKind.LOOKED:
        _apply_first_look(contents, frame)
    elif frame.kind == EntryKind.PARCEL:
        _count(contents, frame)
    elif frame.kind == EntryKind.STANDS:
        _apply_stands(contents, frame)


def _groups(items: Iterator[_Item]) -> Iterator[tuple[_Item, ...]]:
    while group := tuple(islice(items, _AT_ONCE)):
        yield group


def _stated(group: Sequence[Statement]) -> entries.StateEntry:
    """A part of the statements. Altered text is separate, since earlier releases lack it."""
    return entries.StateEntry(
        statements=tuple(
            conversion.statement_entry(statement)
            for statement in group
            if not isinstance(statement, AlteredText)
        ),
        altered=tuple(
            (index, conversion.altered_entry(outgoing))
            for index, outgoing in enumerate(group)
            if isinstance(outgoing, AlteredText)
        ),
    )


def _statements(part: entries.StateEntry) -> list[Statement]:
    statements = list(map(conversion.statement_of, part.statements))
    for index, entry in part.altered:
        statements.insert(index, conversion.altered_of(entry))
    return statements


def _apply_begin(_contents: JournalContents, frame: JournalFrame) -> None:
    raise InconsistentEntry(f"at byte {frame.position}: a second BEGIN entry")


def _apply_state(contents: JournalContents, frame: JournalFrame) -> None:
    part = _decode_state(frame.meta)
    for source in map(conversion.source_of, part.sources):
        contents.known[source.id] = source
        contents.progress[source.id] = source.progress
    for statement in _statements(part):
        contents.restate(statement)
    contents.withheld |= dict(part.withheld)
    contents.leaving |= dict.fromkeys(map(SourceId, part.leaving))
    contents.silent |= contents.leaving.keys()
    contents.ending |= {SourceId(source): number for source, number in part.ending}
    contents.partitions |= {
        chosen.topic: conversion.chosen_of(chosen) for chosen in part.partitions
    }
    contents.acknowledged_offsets |= {
        TopicPartition(topic, partition): offset
        for topic, partition, offset in part.acknowledged_offsets
    }
    contents.ledger_seq += part.ledger_seq
    contents.ledger_head = part.ledger_head or contents.ledger_head
    contents.next_number += part.next_number
    contents.given_up += part.given_up
    for looked_entry in map(conversion.looked_of, part.looked):
        contents.looked_at(looked_entry)
    if part.history is not None:
        contents.history_reached(conversion.history_of(part.history, None))


def _apply_open(contents: JournalContents, frame: JournalFrame) -> None:
    contents.reopen(conversion.open_of(_decode_open(frame.meta), frame.body))


def _apply_stands(contents: JournalContents, frame: JournalFrame) -> None:
    counters = _decode_stands(frame.meta)
    contents.ledger_seq = max(contents.ledger_seq, counters.ledger_seq)
    contents.next_number = max(contents.next_number, counters.next_number)


def _apply_source(contents: JournalContents, frame: JournalFrame) -> None:
    contents.source(conversion.source_of(_decode_source(frame.meta)))


def _apply_parcel(contents: JournalContents, frame: JournalFrame) -> None:
    entry = _decode_parcel(frame.meta)
    contents.parcel(
        Parcel(
            batches=tuple(conversion.outgoing_all(entry.batches, frame.body)),
            eventless=tuple(map(conversion.eventless_of, entry.eventless)),
            progress={SourceId(source): Progress(*rest) for source, *rest in entry.progress},
            altered=tuple(map(conversion.altered_of, entry.altered)),
        )
    )


def _apply_numbered(contents: JournalContents, frame: JournalFrame) -> None:
    for number, producer_id, epoch, sequence, crc in _decode_numbered(frame.meta).numbers:
        if number in contents.open:  # after damage, some may be lost
            contents.numbered([(number, Identity(producer_id, epoch), sequence, crc)])


def _apply_acknowledged(contents: JournalContents, frame: JournalFrame) -> None:
    entry = _decode_acknowledged(frame.meta)
    contents.acknowledged(entry.number, entry.base_offset, entry.leader_epoch, entry.digest)


def _apply_replaced(contents: JournalContents, frame: JournalFrame) -> None:
    entry = _decode_replaced(frame.meta)
    contents.replaced(
        entry.number,
        tuple(conversion.outgoing_all(entry.batches, frame.body)),
        tuple(map(conversion.eventless_of, entry.eventless)),
    )


def _apply_finished(contents: JournalContents, frame: JournalFrame) -> None:
    entry = _decode_finished(frame.meta)
    contents.finished(SourceId(entry.source), entry.number, entry.millis)


def _apply_unwatched(contents: JournalContents, frame: JournalFrame) -> None:
    contents.unwatched(conversion.not_seen_of(_decode_unwatched(frame.meta)))


def _apply_looked(contents: JournalContents, frame: JournalFrame) -> None:
    contents.looked_at(conversion.looked_of(_decode_looked(frame.meta)))


def _apply_history(contents: JournalContents, frame: JournalFrame) -> None:
    entry = _decode_history(frame.meta)
    contents.history_reached(conversion.history_of(entry, contents.history))


def _look_from_there_still(
    contents: JournalContents, offsets: Mapping[TopicPartition, int]
) -> None:
    """Keeps the earlier acknowledged offset of a partition with other open batches: their own
    acknowledgements may have been lost, and then they are below the later offset."""
    for target in {batch.outgoing.batch.target for batch in contents.open.values()}:
        if target in offsets:
            contents.acknowledged_offsets[target] = offsets[target]
        else:
            contents.acknowledged_offsets.pop(target, None)


def _apply_first_look(contents: JournalContents, frame: JournalFrame) -> None:
    looked_at = conversion.looked_of(_decode_looked(frame.meta))
    if looked_at.input not in contents.looked:
        contents.looked_at(looked_at)


def _apply_partition(contents: JournalContents, frame: JournalFrame) -> None:
    entry = _decode_partition(frame.meta)
    contents.partition(entry.topic, conversion.chosen_of(entry))


def _apply_forgotten(contents: JournalContents, frame: JournalFrame) -> None:
    contents.forget(SourceId(_decode_forgotten(frame.meta).source))


def _apply_offset(contents: JournalContents, frame: JournalFrame) -> None:
    entry = _decode_offset(frame.meta)
    contents.begins(TopicPartition(entry.topic, entry.partition), entry.offset)


def _count(contents: JournalContents, frame: JournalFrame) -> None:
    """Advances the counters beyond the numbers of a lost parcel, unless it was counted."""
    parcel = _decode_parcel(frame.meta)
    parts = list(conversion.outgoing_all(parcel.batches, frame.body))
    numbers = [part.number for part in parts] + [number for number, *_ in parcel.eventless]
    numbers += [altered.number for altered in parcel.altered]
    if not numbers or max(numbers) < contents.next_number:
        return
    contents.next_number = max(numbers) + 1
    contents.ledger_seq += sum(
        part.batch.records for part in parts if part.kind is BatchKind.LEDGER
    )


_decode_state: Final = msgspec.msgpack.Decoder(entries.StateEntry).decode
_decode_open: Final = msgspec.msgpack.Decoder(entries.OpenEntry).decode
_decode_stands: Final = msgspec.msgpack.Decoder(entries.StandsEntry).decode
_decode_source: Final = msgspec.msgpack.Decoder(entries.SourceEntry).decode
_decode_parcel: Final = msgspec.msgpack.Decoder(entries.ParcelEntry).decode
_decode_numbered: Final = msgspec.msgpack.Decoder(entries.NumberedEntry).decode
_decode_acknowledged: Final = msgspec.msgpack.Decoder(entries.AcknowledgedEntry).decode
_decode_replaced: Final = msgspec.msgpack.Decoder(entries.ReplacedEntry).decode
_decode_finished: Final = msgspec.msgpack.Decoder(entries.FinishedEntry).decode
_decode_partition: Final = msgspec.msgpack.Decoder(entries.PartitionEntry).decode
_decode_forgotten: Final = msgspec.msgpack.Decoder(entries.ForgottenEntry).decode
_decode_offset: Final = msgspec.msgpack.Decoder(entries.OffsetEntry).decode
_decode_unwatched: Final = msgspec.msgpack.Decoder(entries.UnwatchedEntry).decode
_decode_looked: Final = msgspec.msgpack.Decoder(entries.LookedEntry).decode
_decode_history: Final = msgspec.msgpack.Decoder(entries.HistoryEntry).decode
decode_begin: Final = msgspec.msgpack.Decoder(entries.BeginEntry).decode

_APPLY: Final[dict[EntryKind, Callable[[JournalContents, JournalFrame], None]]] = {
    EntryKind.BEGIN: _apply_begin,
    EntryKind.STATE: _apply_state,
    EntryKind.OPEN: _apply_open,
    EntryKind.STANDS: _apply_stands,
    EntryKind.SOURCE: _apply_source,
    EntryKind.PARCEL: _apply_parcel,
    EntryKind.NUMBERED: _apply_numbered,
    EntryKind.ACKNOWLEDGED: _apply_acknowledged,
    EntryKind.REPLACED: _apply_replaced,
    EntryKind.FINISHED: _apply_finished,
    EntryKind.PARTITION: _apply_partition,
    EntryKind.FORGOTTEN: _apply_forgotten,
    EntryKind.OFFSET: _apply_offset,
    EntryKind.UNWATCHED: _apply_unwatched,
    EntryKind.LOOKED: _apply_looked,
    EntryKind.HISTORY: _apply_history,
}

_TRUE_ANYWAY: Final = frozenset(
    {
        *(
            EntryKind.SOURCE,
            EntryKind.NUMBERED,
            EntryKind.ACKNOWLEDGED,
            EntryKind.REPLACED,
            EntryKind.PARTITION,
        ),
        *(EntryKind.OFFSET, EntryKind.UNWATCHED),
    }
)
