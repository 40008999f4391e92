"""What was cut from a source at once: its events, and the account of its bytes. Pure.

A piece is divided at an event where a batch ends, and its run with it, so that the parts name
exactly the bytes in them. Not known is which of the lines that are excepted lay before that event,
and how many lines each event had: a piece with such lines is `whole`, and divided only if nothing
else helps; then every event of the first part counts for one line, and the rest is said of the
second part. The sums are exact in any case.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from agent.batches.framing import Stretch
from agent.runs import Excepted, Fate, Run


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """`overhead` is about what each event has beside its body, `size` what all of it has. A run
    without events has no stretch; a stretch has no run if its bytes are accounted for elsewhere."""

    run: Run | None
    stretch: Stretch | None
    overhead: int
    size: int

    def __len__(self) -> int:
        return len(self.stretch) if self.stretch is not None else 0

    @property
    def whole(self) -> bool:
        run = self.run
        return run is not None and (bool(run.excepted) or run.lines != run.events)

    def divided(self, at: int) -> "tuple[Piece, Piece]":
        """The first `at` events, and the others: some on either side."""
        assert self.stretch is not None
        run, position = self.run, self.stretch.positions[at]
        before, after = (None, None) if run is None else _divided_run(run, at, position)
        return self._part(0, at, before), self._part(at, len(self), after)

    def part(self, start: int, stop: int) -> "Piece":
        """Some of its events, if it is not whole."""
        stretch, run, count = self.stretch, self.run, len(self)
        assert stretch is not None
        if (start, stop) == (0, count):
            return self
        if run is not None:
            run = replace(
                run,
                seq=run.seq + start,
                events=stop - start,
                position=stretch.positions[start] if start else run.position,
                end_position=stretch.positions[stop] if stop < count else run.end_position,
                lines=stop - start,
            )
        return self._part(start, stop, run)

    def _part(self, start: int, stop: int, run: Run | None) -> "Piece":
        assert self.stretch is not None
        stretch = self.stretch.part(start, stop)
        return Piece(
            run, stretch, self.overhead, self.overhead * len(stretch) + sum(stretch.lengths)
        )


def _divided_run(run: Run, events: int, position: int) -> tuple[Run, Run]:
    lines = min(events, run.lines)
    return (
        replace(run, events=events, end_position=position, lines=lines, excepted=()),
        replace(
            run,
            seq=run.seq + events,
            events=run.events - events,
            position=position,
            lines=run.lines - lines,
        ),
    )


def joined_runs(runs: Iterable[Run]) -> list[Run]:
    """Runs that follow each other, as few as they can be; what was lost stays a run of its own."""
    joined: list[Run] = []
    for run in runs:
        if joined and _follows(run, joined[-1]):
            joined[-1] = _together(joined[-1], run)
        else:
            joined.append(run)
    return joined


def _follows(run: Run, before: Run) -> bool:
    return (
        run.source == before.source
        and run.position == before.end_position
        and not _is_loss(run)
        and not _is_loss(before)
    )


def _is_loss(run: Run) -> bool:
    return any(each.fate is Fate.LOST for each in run.excepted)


def _together(first: Run, second: Run) -> Run:
    return replace(
        first,
        events=first.events + second.events,
        end_position=second.end_position,
        lines=first.lines + second.lines,
        excepted=added_up((*first.excepted, *second.excepted)),
    )


def added_up(excepted: Sequence[Excepted]) -> tuple[Excepted, ...]:
    """One for each fate and reason; what nobody knew of one, nobody knows of the sum."""
    sums: dict[tuple[Fate, str], Excepted] = {}
    for each in excepted:
        key = each.fate, each.reason
        known = sums.get(key)
        sums[key] = each if known is None else _sum(known, each)
    return tuple(sums.values())


def _sum(one: Excepted, other: Excepted) -> Excepted:
    unknown = -1
    count = one.count + other.count if min(one.count, other.count) >= 0 else unknown
    size = one.bytes + other.bytes if min(one.bytes, other.bytes) >= 0 else unknown
    return replace(one, count=count, bytes=size)
