"""Packs cuts of files into parcels: batches for a topic and for its dead letters.

A packer keeps events as columns, and encodes them when its parcel is closed. It numbers events and
dead letters when they are added, so an event that exceeds the topic's batch limit becomes a dead
letter then.

1. Events of one file keep their order; events are grouped by file.
2. Every byte that was added lies in exactly one run: in the batch of its events, or in a statement
   of its own if it has no events, or if its events are spread over several partitions, so that no
   batch could name its bytes.
3. No batch is larger than its topic allows.
"""

import time
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec.structs import replace

from agent.accounting.accounts import added_up
from agent.accounting.alterations import Alteration, AlteredText, summed
from agent.accounting.cuts import Cut, Events
from agent.accounting.parcels import BatchKind, Eventless, Outgoing, Parcel
from agent.accounting.runs import Progress, Run, SourceId
from agent.encoding.batches.dead_letters import dead_piece
from agent.encoding.batches.finished_batches import batches_of
from agent.encoding.batches.framing import Frame, Stretch
from agent.encoding.batches.oversized import without_oversized
from agent.encoding.batches.partitioning import spread_out
from agent.encoding.batches.pieces import Piece
from agent.encoding.batches.plan import SourceHeader, TopicPlan
from client.producing.delivery import TopicPartition

__all__ = ["Packer"]

_MOST_FRAMES: Final = 2_000  # that are remembered
_PER_EVENT: Final = 24  # bytes, about: lengths, seq and position, beside its body and its source


class Packer:
    """Packs cuts for one topic and schema. Belongs to one thread. `plan` may be replaced while the
    packer is empty."""

    def __init__(self, plan: TopicPlan, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.plan = plan
        self._clock = clock
        self._frames: dict[SourceHeader, Frame] = {}
        self._framed_for = plan
        self._forget()

    def _forget(self) -> None:
        self.oldest: float | None = None
        self.size = 0
        self._pieces: dict[SourceHeader, list[Piece]] = {}
        self._dead: list[Piece] = []
        self._progress: dict[SourceId, Progress] = {}
        self._altered: dict[tuple[SourceId, Alteration, str], AlteredText] = {}
        self._ready: _Ready | None = None

    @property
    def full(self) -> bool:
        return self.size >= self.plan.batches.bytes

    def needs_dead_letters(
        self, source: SourceHeader, cut: Cut, progress: Progress, end_position: int
    ) -> bool:
        """Whether adding this cut makes dead letters, from its dead lines or oversized events. Call
        it before `add`, to look up the dead-letter topic first."""
        return bool(self._made_ready(source, cut, progress, end_position).cut.dead)

    def _made_ready(
        self, source: SourceHeader, cut: Cut, progress: Progress, end_position: int
    ) -> "_Ready":
        ready = self._ready
        if ready is not None and ready.is_of(cut, source, progress, self.plan):
            return ready
        frame = self._frame(source)
        stretch, whole_cut = _stretch(frame, cut.events, progress.seq), cut
        if stretch is not None:
            cut = without_oversized(whole_cut, stretch, self.plan, end_position)
            if cut is not whole_cut:
                stretch = _stretch(frame, cut.events, progress.seq)
        self._ready = _Ready(whole_cut, source, progress, self.plan, cut, frame, stretch)
        return self._ready

    def _frame(self, source: SourceHeader) -> Frame:
        if self._framed_for is not self.plan or len(self._frames) > _MOST_FRAMES:
            self._frames.clear()
            self._framed_for = self.plan
        frame = self._frames.get(source)
        if frame is None:
            frame = self._frames[source] = source.frame(self.plan)
        return frame

    def add(
        self, source: SourceHeader, cut: Cut, progress: Progress, end_position: int
    ) -> Progress:
        """Adds a cut that covers a source from `progress.position` to `end_position`. Returns the
        progress after it."""
        if end_position == progress.position:
            return progress
        if self.oldest is None:
            self.oldest = self._clock()
        ready = self._made_ready(source, cut, progress, end_position)
        self._ready = None
        cut, frame, stretch = ready.cut, ready.frame, ready.stretch
        count = len(stretch) if stretch is not None else 0
        run = Run(
            *(source.id, progress.seq, count, progress.position, end_position, cut.lines),
            added_up(cut.excepted),
        )
        overhead = len(frame.identity) + len(frame.before_body) + _PER_EVENT
        size = stretch.total + count * overhead if stretch is not None else 0
        self._pieces.setdefault(source, []).append(Piece(run, stretch, overhead, size))
        if cut.dead:
            self._dead.append(dead_piece(source, self.plan, cut.dead, progress.dead_seq))
            size += self._dead[-1].size
        if cut.altered and stretch is not None:
            self._add_altered(source, cut, stretch)
        self.size += size
        next_progress = Progress(
            end_position, progress.seq + count, progress.dead_seq + len(cut.dead)
        )
        self._progress[source.id] = next_progress
        return next_progress

    def close(self, now_millis: int, number: Callable[[], int]) -> Parcel:
        """Returns everything as one parcel, and empties the packer."""
        plan = self.plan
        spread = spread_out(self._pieces, plan)
        batches: list[Outgoing] = []
        eventless = [*spread.runs]
        for partition, pieces in spread.partitions.items():
            target = TopicPartition(plan.topic, partition)
            new_batches, eventless_runs = batches_of(
                BatchKind.EVENTS, target, pieces, plan, now_millis=now_millis, number=number
            )
            batches += new_batches
            eventless += eventless_runs
        if self._dead:
            target = TopicPartition(plan.dead_topic, plan.dead_partition)
            new_batches, _ = batches_of(
                BatchKind.DEAD_LETTERS,
                target,
                self._dead,
                plan,
                now_millis=now_millis,
                number=number,
            )
            batches += new_batches
        statements = [Eventless(number(), plan.topic, run) for run in eventless]
        altered_texts = [
            replace(altered_text, number=number()) for altered_text in self._altered.values()
        ]
        parcel = Parcel(batches, statements, self._progress, altered_texts)
        self._forget()
        return parcel

    def _add_altered(self, source: SourceHeader, cut: Cut, stretch: Stretch) -> None:
        begin, end = stretch.earliest, stretch.latest
        for altered in cut.altered:
            key = source.id, altered.kind, altered.name
            previous = self._altered.get(key)
            if previous is None:
                self._altered[key] = AlteredText(
                    *(-1, self.plan.topic, source.input, source.id, source.path, altered),
                    *(begin, end),
                )
            else:
                self._altered[key] = replace(
                    previous,
                    altered=summed(previous.altered, altered),
                    from_millis=min(previous.from_millis, begin),
                    to_millis=max(previous.to_millis, end),
                )


class _Ready(msgspec.Struct, frozen=True, eq=False):
    """A cut prepared for adding, kept between `needs_dead_letters` and `add`."""

    whole: Cut
    source: SourceHeader
    progress: Progress
    plan: TopicPlan
    cut: Cut  # without events that are too large
    frame: Frame
    stretch: Stretch | None

    def is_of(self, cut: Cut, source: SourceHeader, progress: Progress, plan: TopicPlan) -> bool:
        is_same_cut = self.whole is cut and self.plan is plan
        return is_same_cut and self.source == source and self.progress == progress


def _stretch(frame: Frame, events: Events | None, first_seq: int) -> Stretch | None:
    if events is None or not events.bodies:
        return None
    return Stretch(
        frame,
        times=events.times,
        seqs=range(first_seq, first_seq + len(events.bodies)),
        positions=events.positions,
        bodies=events.bodies,
        keys=events.keys,
    )
