"""Replaces batches that the broker refuses, as their cures require.

Every event ends up in exactly one of the new batches, in its former order, or becomes a dead
letter; and the runs account for every byte of it.

Runs are cut together with their batch, so that each part names exactly its own bytes. An event's
position in the file is in its header. It is not stored how many lines an event has, and which lines
between events were excepted: when a run is cut, each part but the last has one line for every
event, and the last has the rest, so that the sums are exact.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from agent.accounting.accounts import bytes_of_events, divided
from agent.accounting.parcels import BatchKind, Eventless, Outgoing
from agent.accounting.runs import Excepted, Fate, Run, SourceId, WindowCount
from agent.encoding.topic_schemas.values import TopicSchema
from agent.journal.ledger_chain import proof_of
from agent.shipping import rebuilding
from agent.shipping.cures import Cure
from agent.shipping.dead_letters import RefusedLetters, shortened
from agent.shipping.rebuilding import (
    EventHeader,
    TimeBounds,
    batch_of,
    codec_of,
    contents,
    event_header,
)
from client.producing.delivery import TopicPartition
from ground.signatures.keys import SigningKey
from ledger.names import DEAD_SUFFIX
from ledger.proofs import HEADER, NO_HEAD, Chain
from schemas.envelope import Decoder, Encoder, split
from schemas.event_schemas import LEDGER, built_in
from wire.record_batches.compression import Codec
from wire.record_batches.records import Record

log = logging.getLogger(__name__)


def cut_runs(
    runs: Iterable[Run], counts: Sequence[int], positions: Sequence[int]
) -> Iterator[tuple[Run, ...]]:
    """The runs of consecutive parts of a batch. `counts` has the number of events of each part.

    `positions` are the positions of each part's first event in its file.
    """
    remaining_runs = list(runs)[::-1]
    for part, count in enumerate(counts):
        part_runs: list[Run] = []
        remaining_events = count
        while remaining_events and remaining_runs:
            run = remaining_runs.pop()
            if run.events > remaining_events:
                run, second_run = divided(run, remaining_events, positions[part + 1])
                remaining_runs.append(second_run)
            remaining_events -= run.events
            part_runs.append(run)
        if part == len(counts) - 1:
            part_runs += remaining_runs[::-1]
        yield tuple(part_runs)


def dead_lettered(run: Run, reason: str) -> Run:
    """The run of a single event that its topic refused, so that it became a dead letter."""
    if not run.events:
        return run
    refused_lines = Excepted(Fate.DEAD_LETTERED, run.lines, bytes_of_events(run), reason)
    return replace(run, events=0, lines=0, excepted=(*run.excepted, refused_lines))


def dead_lettered_of_spread(header: EventHeader, reason: str) -> Run:
    """Returns an empty run that counts a dead letter, for an event that is in no run of its
    batch."""
    position = header.position
    refused_lines = Excepted(Fate.DEAD_LETTERED, 1, 0, reason)
    return Run(SourceId(header.source), header.seq, 0, position, position, 0, (refused_lines,))


def window_counts(times: Iterable[int], window_millis: int) -> tuple[WindowCount, ...]:
    counts: dict[int, int] = {}
    for time in times:
        start = time - time % window_millis
        counts[start] = counts.get(start, 0) + 1
    return tuple(WindowCount(start, counts[start]) for start in sorted(counts))


def cut_delays(delays: Sequence[int], parts: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """The delays of the events of each part, by their times: all were measured at the same moment,
    so the latest events have the smallest delays."""
    if sum(delays) != sum(map(len, parts)):
        return [() for _ in parts]  # not measured
    latest_first = sorted(
        ((time, part) for part, times in enumerate(parts) for time in times), reverse=True
    )
    counts = [[0] * len(delays) for _ in parts]
    buckets = (bucket for bucket, count in enumerate(delays) for _ in range(count))
    for (_, part), bucket in zip(latest_first, buckets, strict=True):
        counts[part][bucket] += 1
    return [tuple(part_counts) for part_counts in counts]


def without_statements(record: Record) -> Record | None:
    """An entry of the ledger with empty lists; None if they were empty already."""
    message = record.value or b""
    schema_id, _ = split(message)
    entry = Decoder(lambda _: built_in(LEDGER)).decode(message)
    list_names = {name for name, value in entry.items() if isinstance(value, list) and value}
    if not list_names:
        return None
    emptied_entry = entry | {name: [] for name in list_names}
    return record._replace(value=Encoder(built_in(LEDGER), schema_id).encode(emptied_entry))


class Replacement(msgspec.Struct, frozen=True):
    batches: Sequence[Outgoing]
    eventless: Sequence[Eventless] = ()
    letters: int = 0


class DeadLetterTopic(msgspec.Struct, frozen=True):
    """The partition and schema for a topic's dead letters."""

    target: TopicPartition
    schema: TopicSchema


class Replacer:
    """Makes replacements. Its only state is the count of dead letters."""

    def __init__(
        self,
        next_number: Callable[[], int],
        refused: RefusedLetters,
        dead_letter_topic: Callable[[str], DeadLetterTopic | None],
        ledger_too_large: Callable[[int], None],
        key: SigningKey,
    ) -> None:
        """`dead_letter_topic` returns where dead letters of a topic go; None if unknown.
        `ledger_too_large` is called with the size of an entry that is too large. Entries of the
        ledger are proven with `key`."""
        self._next_number = next_number
        self._ledger_too_large = ledger_too_large
        self._refused = refused
        self._dead_letter_topic = dead_letter_topic
        self._key = key

    def replacement(
        self,
        outgoing: Outgoing,
        cure: Cure,
        reason: str,
        bounds: TimeBounds,
        now_millis: int,
        *,
        head: bytes = NO_HEAD,
    ) -> Replacement | None:
        """The replacement of a batch by a cure; None if the cure is not possible now. `head` is the
        head of the ledger's chain before the batch, if it is one of the ledger."""
        match cure:
            case Cure.STAND:
                return None
            case Cure.REPACK:
                return self._repacked(outgoing)
            case Cure.CLAMP:
                return self._clamped(outgoing, bounds, now_millis)
            case Cure.PROVE:
                events = [self._proven(event, head) for event in contents(outgoing.batch)]
                return self._rebuilt(outgoing, events, codec_of(outgoing.batch))
            case Cure.SPLIT | Cure.DEAD_LETTER:
                events = contents(outgoing.batch)
                if len(events) > 1:
                    return self._halves(outgoing, events)
                return self._single(outgoing, events[0], cure, reason, head)

    def moved(self, outgoing: Outgoing, target: TopicPartition) -> Replacement:
        """Returns the batch with another partition."""
        batch = replace(outgoing.batch, target=target)
        return Replacement([replace(outgoing, number=self._next_number(), batch=batch)])

    def letter_counted(self, letters: int) -> None:
        """Notes that a replacement with this many dead letters was journalled."""
        for _ in range(letters):
            self._refused.counted()

    def _repacked(self, outgoing: Outgoing) -> Replacement | None:
        codec = rebuilding.plainer(codec_of(outgoing.batch))
        if codec is None:
            return None
        return self._rebuilt(outgoing, contents(outgoing.batch), codec)

    def _clamped(
        self, outgoing: Outgoing, bounds: TimeBounds, now_millis: int
    ) -> Replacement | None:
        events = contents(outgoing.batch)
        clamped_events = [
            event._replace(timestamp=bounds.clamped(event.timestamp, now_millis))
            for event in events
        ]
        if clamped_events == events:  # the broker uses other bounds
            clamped_events = [event._replace(timestamp=now_millis) for event in events]
            if {event.timestamp for event in events} == {now_millis}:
                return None
        return self._rebuilt(outgoing, clamped_events, codec_of(outgoing.batch))

    def _rebuilt(self, outgoing: Outgoing, events: Sequence[Record], codec: Codec) -> Replacement:
        rebuilt = replace(
            outgoing,
            number=self._next_number(),
            batch=batch_of(outgoing.batch.target, events, codec),
            windows=self._windows(outgoing, events),
        )
        return Replacement([rebuilt])

    def _halves(self, outgoing: Outgoing, events: Sequence[Record]) -> Replacement:
        middle = len(events) // 2
        parts = [events[:middle], events[middle:]]
        counts = [len(part) for part in parts]
        runs: Sequence[tuple[Run, ...]] = [(), ()]
        if outgoing.runs:
            starts = [event_header(part[0].value or b"").position for part in parts]
            runs = list(cut_runs(outgoing.runs, counts, starts))
        times = [[event.timestamp for event in part] for part in parts]
        delays = cut_delays(outgoing.delays, times)
        half_batches = []
        for index, part in enumerate(parts):
            is_last = index == len(parts) - 1
            half_batches.append(
                replace(
                    outgoing,
                    number=self._next_number(),
                    batch=batch_of(outgoing.batch.target, part, codec_of(outgoing.batch)),
                    runs=runs[index],
                    windows=self._windows(outgoing, part),
                    delays=delays[index],
                    covers=outgoing.covers if is_last else (),
                )
            )
        return Replacement(half_batches)

    def _single(
        self, outgoing: Outgoing, event: Record, cure: Cure, reason: str, head: bytes
    ) -> Replacement | None:
        topic = outgoing.batch.target.topic
        if outgoing.kind is BatchKind.LEDGER:
            return self._emptied(outgoing, event, head) if cure is Cure.SPLIT else None
        if outgoing.kind is BatchKind.DEAD_LETTERS:
            dead_letters = self._dead_letter_topic(topic.removesuffix(DEAD_SUFFIX))
            if cure is not Cure.SPLIT or dead_letters is None:
                return None
            shortened_event = shortened(event, dead_letters.schema)
            if shortened_event is None:
                return None
            return self._rebuilt(outgoing, [shortened_event], codec_of(outgoing.batch))
        dead_letters = self._dead_letter_topic(topic)
        if dead_letters is None:
            return None
        letter = self._refused.letter(event, topic, reason, dead_letters.schema, outgoing.runs)
        dead_batch = Outgoing(
            number=self._next_number(),
            kind=BatchKind.DEAD_LETTERS,
            batch=batch_of(dead_letters.target, [letter.record], codec_of(outgoing.batch)),
            runs=(letter.run,),
            windows=window_counts([event.timestamp], outgoing.window_millis),
            delays=outgoing.delays,
            window_millis=outgoing.window_millis,
        )
        eventless = [
            Eventless(self._next_number(), topic, dead_lettered(event_run, reason))
            for event_run in outgoing.runs
        ]
        if not outgoing.runs:
            run = dead_lettered_of_spread(event_header(event.value or b""), reason)
            eventless = [Eventless(self._next_number(), topic, run)]
        return Replacement([dead_batch], eventless, letters=1)

    def _windows(self, outgoing: Outgoing, events: Sequence[Record]) -> tuple[WindowCount, ...]:
        if outgoing.kind is BatchKind.LEDGER:
            return ()
        return window_counts([event.timestamp for event in events], outgoing.window_millis)

    def _proven(self, record: Record, head: bytes) -> Record:
        """The entry with a proof that builds on this head, if it has a proof."""
        if proof_of(record) is None:
            return record
        proof = Chain(self._key, head).prove(record.value or b"", 0.0)
        return record._replace(headers=((HEADER, proof.encoded),))

    def _emptied(self, outgoing: Outgoing, record: Record, head: bytes) -> Replacement | None:
        """An empty entry of the ledger, so that its number is not missing: its statements go into
        smaller entries. A single statement that is too large is left out."""
        empty_entry = without_statements(record)
        if empty_entry is None:
            return None
        self._ledger_too_large(len(record.value or b""))
        rebuilt_batch = self._rebuilt(
            outgoing, [self._proven(empty_entry, head)], codec_of(outgoing.batch)
        ).batches[0]
        covers = outgoing.covers if len(outgoing.covers) == 1 else ()
        if covers:
            log.error("statement too large for the ledger, skipped")
        return Replacement([replace(rebuilt_batch, covers=covers)])
