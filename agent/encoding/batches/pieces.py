"""Pieces: the events cut from a source at once, with the run that accounts for their bytes. Pure.

A piece is divided at an event where a batch ends, and its run with it, so that each part names
exactly its own bytes. If lines were excepted, or events have several lines, it is unknown how many
lines lay before that event: such a piece is `whole`, and divided only as a last resort. Then every
event of the first part counts as one line, and the second part has the rest. The sums are exact in
any case.
"""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from agent.accounting.accounts import divided, is_loss, joined
from agent.accounting.runs import Run
from agent.encoding.batches.framing import Stretch


class Piece(msgspec.Struct, frozen=True, eq=False):
    """Events with the run that accounts for their bytes. `overhead` is the approximate size of an
    event without its body, `size` that of the piece. `stretch` is None if the run has no events;
    `run` is None if the bytes are accounted for elsewhere."""

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
        """Divides the piece after `at` events, so that both parts have events."""
        assert self.stretch is not None
        run, position = self.run, self.stretch.positions[at]
        first_run, second_run = (None, None) if run is None else divided(run, at, position)
        return self._part(0, at, first_run), self._part(at, len(self), second_run)

    def part(self, start: int, stop: int) -> "Piece":
        """Returns the events from `start` to `stop` as a piece. Only for pieces that may be taken
        apart, that is, not `whole`."""
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
    """Joins consecutive runs; a loss stays a run of its own."""
    merged_runs: list[Run] = []
    for run in runs:
        if merged_runs and _follows(run, merged_runs[-1]):
            merged_runs[-1] = joined(merged_runs[-1], run)
        else:
            merged_runs.append(run)
    return merged_runs


def _follows(run: Run, before: Run) -> bool:
    return (
        run.source == before.source
        and run.position == before.end_position
        and not is_loss(run)
        and not is_loss(before)
    )
