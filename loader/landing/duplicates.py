"""Recognizes new rows: no event of a source lands twice.

A producer that does not number its events leaves their source empty, or their seq negative: these
are always new. Other events are duplicates if the manifest has them (`seen`), or if they occurred
earlier in this slice. Rows come in runs: consecutive events of one source, often a whole batch. A
run costs the same however long it is. If most runs are short, the rows are sorted first, which
makes runs longer.

Events with the same source and seq may still differ, since any producer can use any source. So all
duplicates are noted for the driver, which compares them (loader/run/collisions.py).

The memory of a slice is bounded: a source with too many gaps is scattered, and sources beyond a
limit are not tracked. Their events count as new, unless the manifest has them.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ground.intervals import GrowingIntervals, Intervals, minus, missing, size
from loader.landing.rows import Arrived, RowRange, ends, numbers, positions
from loader.landing.task_spec import Seen
from loader.values.reports import (
    MOST_INTERVALS,
    MOST_REPEATS,
    MOST_TRACKED,
    Repeat,
    SourceRun,
    closed,
    intervals_of,
)

MOST_REPEATED: Final = 1_000  # sources whose duplicates are counted
_OFFSET: Final = "_offset"
_FEW_RUNS: Final = 16
_LONG_RUN: Final = 8  # rows: if most runs are shorter, sorting pays


class Duplicates:
    """Recognizes duplicates among the events of one slice."""

    def __init__(
        self,
        seen: Seen,
        *,
        most_intervals: int = MOST_INTERVALS,
        most_tracked: int = MOST_TRACKED,
    ) -> None:
        self.untracked = 0
        self.repeats: list[Repeat] = []
        self._seen = seen
        self._with_holes: dict[str, Intervals] = {}  # seen events of sources with gaps
        self._most_intervals = most_intervals
        self._most_tracked = most_tracked
        self._landed: dict[str, GrowingIntervals] = {}
        self._scattered: set[str] = set()
        self._tracked = 0  # intervals, and scattered sources
        self._parts: tuple[SourceRun, ...] = ()  # of previous epochs
        self._in_parts: dict[str, Intervals] = {}  # the events in these
        self._repeated: Counter[str] = Counter()  # duplicates, of the first MOST_REPEATED sources

    @property
    def scattered(self) -> tuple[str, ...]:
        return tuple(sorted(self._scattered))

    @property
    def most_repeated(self) -> str:
        """The source with the most duplicates; empty if there are none."""
        return max(self._repeated, key=lambda source: (self._repeated[source], source), default="")

    def end_part(self, leader_epoch: int) -> None:
        """Assigns the events that were new since the last part to this epoch."""
        self._parts += self._part(leader_epoch)
        self._in_parts = {source: intervals.intervals for source, intervals in self._landed.items()}

    def runs(self, leader_epoch: int) -> tuple[SourceRun, ...]:
        """The new events by source; those since the last part are assigned to this epoch."""
        remembered_runs = (run for run in self._parts if run.source not in self._scattered)
        return (*remembered_runs, *self._part(leader_epoch))

    def _part(self, leader_epoch: int) -> tuple[SourceRun, ...]:
        new_runs = (
            (source, minus(landed_intervals.intervals, self._in_parts.get(source, ())))
            for source, landed_intervals in sorted(self._landed.items())
        )
        return tuple(
            SourceRun(source=source, intervals=closed(intervals), leader_epoch=leader_epoch)
            for source, intervals in new_runs
            if intervals
        )

    def new(self, arrived: Arrived) -> Arrived:
        """The rows that are not duplicates, in their order. From now on they count as landed."""
        sources, seqs = arrived.sources, arrived.seqs
        if sources is None or seqs is None:
            return arrived
        numbered_mask = _numbered(sources, seqs)
        if numbered_mask is None:
            new_rows = self._new_rows(sources, seqs)
        else:
            numbered_rows = pc.indices_nonzero(numbered_mask).cast(pa.int64())
            other_rows = pc.indices_nonzero(pc.invert(numbered_mask)).cast(pa.int64())
            new_among_numbered = self._new_rows(
                sources.take(numbered_rows), seqs.take(numbered_rows)
            )
            new_rows = _sorted(
                pa.concat_arrays(
                    [numbered_rows.take(_rows(new_among_numbered, len(numbered_rows))), other_rows]
                )
            )
        if isinstance(new_rows, list):
            return arrived.within(new_rows)
        return arrived if len(new_rows) == len(arrived) else arrived.at(new_rows)

    def note(self, arrived: Arrived, new: Arrived) -> None:
        """Records the positions of the duplicates: the rows that are not in `new`."""
        offsets, landed_offsets = (part.rows.column(_OFFSET) for part in (arrived, new))
        repeated_rows = arrived.where(pc.invert(pc.is_in(offsets, value_set=landed_offsets)))
        sources, seqs = repeated_rows.sources, repeated_rows.seqs
        if sources is None or seqs is None:
            return
        offsets = repeated_rows.rows.column(_OFFSET)
        stretch_ends = sorted({*_cuts(sources, seqs), *_cuts(sources, offsets)})
        for start, end in pairwise([0, *stretch_ends]):
            if len(self.repeats) < MOST_REPEATS:
                source, seq, offset = (column[start].as_py() for column in (sources, seqs, offsets))
                self.repeats.append(Repeat(source, seq, offset, end - start))

    def _new_rows(self, sources: pa.Array, seqs: pa.Int64Array) -> "list[RowRange] | pa.Int64Array":
        """The positions of new rows, in ascending order."""
        cut_rows = _cuts(sources, seqs)
        if len(cut_rows) <= _FEW_RUNS + len(seqs) // _LONG_RUN:
            return _joined(list(self._kept(sources, seqs, cut_rows)))
        encoded_sources = sources.dictionary_encode()
        columns = pa.table([encoded_sources.indices, seqs], names=["source", "seq"])
        keys = [("source", "ascending"), ("seq", "ascending")]
        order = pc.sort_indices(columns, sort_keys=keys)  # stable: the first of equals comes first
        source_codes = encoded_sources.indices.take(order)
        kept_intervals = self._kept(
            encoded_sources.dictionary.take(source_codes), seqs.take(order), None
        )
        return _sorted(order.take(positions(kept_intervals, len(order))).cast(pa.int64()))

    def _kept(
        self, sources: pa.Array, seqs: pa.Array, cuts: Sequence[int] | None
    ) -> Iterator[RowRange]:
        cuts = _cuts(sources, seqs) if cuts is None else cuts
        starts = pa.array([0, *cuts[:-1]] if cuts else [], pa.int64())
        names, first_seqs = sources.take(starts).to_pylist(), seqs.take(starts).to_pylist()
        for source, seq, start, end in zip(
            names, first_seqs, starts.to_pylist(), cuts, strict=True
        ):
            intervals = self._new(source, seq, seq + end - start)
            if repeated_count := end - start - size(intervals):
                self._repeat(source, repeated_count)
            for first, after in intervals:
                yield start + first - seq, start + after - seq

    def _new(self, source: str, first: int, after: int) -> Intervals:
        new_intervals = missing(self._landed_before(source), first, after)
        if not new_intervals or source in self._scattered:
            return new_intervals
        intervals = self._landed.get(source)
        if intervals is None:
            if self._tracked >= self._most_tracked:
                self.untracked += size(new_intervals)
                return new_intervals
            intervals = self._landed[source] = GrowingIntervals()
        previous_length = len(intervals)
        new_intervals = tuple(
            part for interval in new_intervals for part in intervals.add(*interval)
        )
        self._tracked += len(intervals) - previous_length
        if len(intervals) > self._most_intervals or self._tracked > self._most_tracked:
            self._tracked -= len(intervals) - 1
            self._scattered.add(source)
            del self._landed[source]
        return new_intervals

    def _landed_before(self, source: str) -> Intervals:
        landed_events = self._seen.get(source, 0)
        if isinstance(landed_events, int):
            return intervals_of(landed_events)
        if (intervals := self._with_holes.get(source)) is None:
            intervals = self._with_holes[source] = intervals_of(landed_events)
        return intervals

    def _repeat(self, source: str, events: int) -> None:
        if source in self._repeated or len(self._repeated) < MOST_REPEATED:
            self._repeated[source] += events


def _numbered(sources: pa.Array, seqs: pa.Int64Array) -> pa.BooleanArray | None:
    """Whether a row's source and seq identify its event; None if that holds for all rows."""
    if pc.min(seqs).as_py() >= 0 and pc.min(pc.binary_length(sources)).as_py() > 0:
        return None
    return pc.and_(
        pc.greater_equal(seqs, pa.scalar(0, pa.int64())),
        pc.greater(pc.binary_length(sources), pa.scalar(0, pa.int32())),
    )


def _rows(new: "list[RowRange] | pa.Int64Array", rows: int) -> pa.Int64Array:
    return positions(new, rows) if isinstance(new, list) else new


def _sorted(rows: pa.Int64Array) -> pa.Int64Array:
    return rows.take(pc.sort_indices(rows))


def _cuts(sources: pa.Array, seqs: pa.Array) -> list[int]:
    """The ends of runs: the source changes, or seqs are not consecutive."""
    steps = pc.subtract(seqs, numbers(len(seqs)))
    cut_rows, changes = ends(steps), ends(sources)
    if len(changes) > 1:
        cut_rows = sorted({*cut_rows, *changes})
    return cut_rows


def _joined(stretches: Sequence[RowRange]) -> list[RowRange]:
    """The same rows in as few stretches as possible."""
    if not stretches:
        return []
    gaps = [(end, start) for (_, end), (start, _) in pairwise(stretches) if end != start]
    starts = [stretches[0][0], *(start for _, start in gaps)]
    return list(zip(starts, [*(end for end, _ in gaps), stretches[-1][1]], strict=True))
