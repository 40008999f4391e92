"""What takes the place of a batch that the broker refuses: the cures, carried out on values.

Whatever is done, every event is in exactly one of the new batches, in the order that it had, or is
a dead letter; and the bookkeeping says so, byte by byte.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agent.parcels import Cargo, Eventless, Outgoing
from agent.runs import Run, WindowCount
from agent.shipping import rebuilding
from agent.shipping.cures import Cure
from agent.shipping.dead_letters import Refused, shortened
from agent.shipping.event_headers import event_header
from agent.shipping.ledger_entries import without_statements
from agent.shipping.rebuilding import TimeBounds, batch_of, codec_of, contents
from agent.shipping.run_cutting import (
    cut_delays,
    cut_runs,
    dead_lettered,
    dead_lettered_of_spread,
    window_counts,
)
from agent.topic_schemas.values import TopicSchema
from client.delivery import TopicPartition
from ledger.names import DEAD_SUFFIX
from wire.compression import Codec
from wire.records import Record

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Replacement:
    batches: Sequence[Outgoing]
    eventless: Sequence[Eventless] = ()
    letters: int = 0


@dataclass(frozen=True, slots=True)
class Post:
    """Where dead letters of a topic go, and how they are written."""

    target: TopicPartition
    schema: TopicSchema


class Workshop:
    """Makes replacements, and keeps nothing but the count of dead letters."""

    def __init__(
        self,
        next_number: Callable[[], int],
        refused: Refused,
        post: Callable[[str], Post | None],
        ledger_too_large: Callable[[int], None],
    ) -> None:
        """`post` knows about the topic of dead letters; None while nobody does. `ledger_too_large`
        is told that entries must be smaller."""
        self._next_number = next_number
        self._ledger_too_large = ledger_too_large
        self._refused = refused
        self._post = post

    def replacement(
        self, outgoing: Outgoing, cure: Cure, reason: str, bounds: TimeBounds, now_millis: int
    ) -> Replacement | None:
        """None if this cure cannot do anything, now or ever."""
        match cure:
            case Cure.STAND:
                return None
            case Cure.REPACK:
                return self._repacked(outgoing)
            case Cure.CLAMP:
                return self._clamped(outgoing, bounds, now_millis)
            case Cure.SPLIT | Cure.DEAD_LETTER:
                events = contents(outgoing.batch)
                if len(events) > 1:
                    return self._halves(outgoing, events)
                return self._single(outgoing, events[0], cure, reason)

    def moved(self, outgoing: Outgoing, target: TopicPartition) -> Replacement:
        """The same for another partition."""
        batch = replace(outgoing.batch, target=target)
        return Replacement([replace(outgoing, number=self._next_number(), batch=batch)])

    def letter_posted(self, letters: int) -> None:
        """The journal has a replacement with so many dead letters."""
        for _ in range(letters):
            self._refused.posted()

    def _repacked(self, outgoing: Outgoing) -> Replacement | None:
        codec = rebuilding.plainer(codec_of(outgoing.batch))
        if codec is None:
            return None
        return self._rebuilt(outgoing, contents(outgoing.batch), codec)

    def _clamped(
        self, outgoing: Outgoing, bounds: TimeBounds, now_millis: int
    ) -> Replacement | None:
        events = contents(outgoing.batch)
        clamped = [
            each._replace(timestamp=bounds.clamped(each.timestamp, now_millis)) for each in events
        ]
        if clamped == events:  # the bounds are not what the broker goes by
            clamped = [each._replace(timestamp=now_millis) for each in events]
            if {each.timestamp for each in events} == {now_millis}:
                return None
        return self._rebuilt(outgoing, clamped, codec_of(outgoing.batch))

    def _rebuilt(self, outgoing: Outgoing, events: Sequence[Record], codec: Codec) -> Replacement:
        again = replace(
            outgoing,
            number=self._next_number(),
            batch=batch_of(outgoing.batch.target, events, codec),
            windows=self._windows(outgoing, events),
        )
        return Replacement([again])

    def _halves(self, outgoing: Outgoing, events: Sequence[Record]) -> Replacement:
        middle = len(events) // 2
        parts = [events[:middle], events[middle:]]
        counts = [len(part) for part in parts]
        runs: Sequence[tuple[Run, ...]] = [(), ()]
        if outgoing.runs:
            starts = [event_header(part[0].value or b"").position for part in parts]
            runs = list(cut_runs(outgoing.runs, counts, starts))
        times = [[each.timestamp for each in part] for part in parts]
        delays = cut_delays(outgoing.delays, times)
        halves = []
        for at, part in enumerate(parts):
            last = at == len(parts) - 1
            halves.append(
                replace(
                    outgoing,
                    number=self._next_number(),
                    batch=batch_of(outgoing.batch.target, part, codec_of(outgoing.batch)),
                    runs=runs[at],
                    windows=self._windows(outgoing, part),
                    delays=delays[at],
                    covers=outgoing.covers if last else (),
                )
            )
        return Replacement(halves)

    def _single(
        self, outgoing: Outgoing, event: Record, cure: Cure, reason: str
    ) -> Replacement | None:
        topic = outgoing.batch.target.topic
        if outgoing.cargo is Cargo.LEDGER:
            return self._emptied(outgoing, event) if cure is Cure.SPLIT else None
        if outgoing.cargo is Cargo.DEAD_LETTERS:
            post = self._post(topic.removesuffix(DEAD_SUFFIX))
            if cure is not Cure.SPLIT or post is None:
                return None
            shorter = shortened(event, post.schema)
            if shorter is None:
                return None
            return self._rebuilt(outgoing, [shorter], codec_of(outgoing.batch))
        post = self._post(topic)
        if post is None:
            return None
        letter = self._refused.letter(event, topic, reason, post.schema, outgoing.runs)
        dead = Outgoing(
            number=self._next_number(),
            cargo=Cargo.DEAD_LETTERS,
            batch=batch_of(post.target, [letter.record], codec_of(outgoing.batch)),
            runs=(letter.run,),
            windows=window_counts([event.timestamp], outgoing.window_millis),
            delays=outgoing.delays,
            window_millis=outgoing.window_millis,
        )
        eventless = [
            Eventless(self._next_number(), topic, dead_lettered(each, reason))
            for each in outgoing.runs
        ]
        if not outgoing.runs:
            run = dead_lettered_of_spread(event_header(event.value or b""), reason)
            eventless = [Eventless(self._next_number(), topic, run)]
        return Replacement([dead], eventless, letters=1)

    def _windows(self, outgoing: Outgoing, events: Sequence[Record]) -> tuple[WindowCount, ...]:
        if outgoing.cargo is Cargo.LEDGER:
            return ()
        return window_counts([each.timestamp for each in events], outgoing.window_millis)

    def _emptied(self, outgoing: Outgoing, record: Record) -> Replacement | None:
        """An entry of the ledger without what it says, so that its number is not missing: what it
        covers is said again in smaller ones. A statement that no entry can hold is left out."""
        empty = without_statements(record)
        if empty is None:
            return None
        self._ledger_too_large(len(record.value or b""))
        again = self._rebuilt(outgoing, [empty], codec_of(outgoing.batch)).batches[0]
        covers = outgoing.covers if len(outgoing.covers) == 1 else ()
        if covers:
            log.error("a statement is left out of the ledger, which calls it too large")
        return Replacement([replace(again, covers=covers)])
