"""What was cut from a source at once: its events, and the account of its bytes. Pure.

A piece is divided at an event where a batch ends, and its run with it, so that the parts name
exactly the bytes in them. Not known is which of the lines that are excepted lay before that event,
and how many lines each event had: a piece with such lines is `whole`, and divided only if nothing
else helps; then every event of the first part counts for one line, and the rest is said of the
second part. The sums are exact in any case.
"""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from agent.accounts import divided, is_loss, joined
from agent.batches.framing import Stretch
from agent.runs import Run


class Piece(msgspec.Struct, frozen=True, eq=False):
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
        before, after = (None, None) if run is None else divided(run, at, position)
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
        return Piece(run, stretch, self.overhead, self.overhead * len(stretch) + stretch.total)


def joined_runs(runs: Iterable[Run]) -> list[Run]:
    """Runs that follow each other, as few as they can be; what was lost stays a run of its own."""
    found: list[Run] = []
    for run in runs:
        if found and _follows(run, found[-1]):
            found[-1] = joined(found[-1], run)
        else:
            found.append(run)
    return found


def _follows(run: Run, before: Run) -> bool:
    return (
        run.source == before.source
        and run.position == before.end_position
        and not is_loss(run)
        and not is_loss(before)
    )
