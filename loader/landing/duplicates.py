"""Which rows are new: no event of a source lands twice.

Whoever does not number its events leaves their source empty, or counts below 0: they are all new.
Any other has landed if the manifest says so (`seen`), or if this slice has had it before. Rows come
in runs: consecutive events of one source, often a whole batch. Each run costs the same, however
long it is. Where hardly two rows belong together they are sorted first, and the runs are looked for
among the sorted.

That two events have the same source and seq does not make them the same event: whoever may write to
a topic can send any. So all that is taken for a duplicate is noted, for the driver to compare
(loader/run/collisions.py).

What a slice remembers is bounded: a source with too many gaps is scattered, sources beyond a number
are not tracked. Their events count as new, unless the manifest knows them.
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
from loader.reports import (
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
_LONG_RUN: Final = 8  # rows: with fewer in most runs, sorting pays


class Duplicates:
    """The memory of one slice."""

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
        self._with_holes: dict[str, Intervals] = {}  # what was seen of these
        self._most_intervals = most_intervals
        self._most_tracked = most_tracked
        self._landed: dict[str, GrowingIntervals] = {}
        self._scattered: set[str] = set()
        self._tracked = 0  # intervals, and sources that are scattered
        self._parts: tuple[SourceRun, ...] = ()  # of epochs that are over
        self._told: dict[str, Intervals] = {}  # what these have
        self._repeated: Counter[str] = Counter()  # duplicates, of the first MOST_REPEATED sources

    @property
    def scattered(self) -> tuple[str, ...]:
        return tuple(sorted(self._scattered))

    @property
    def most_repeated(self) -> str:
        """The source with most duplicates; nothing if there are none."""
        return max(self._repeated, key=lambda each: (self._repeated[each], each), default="")

    def end_part(self, leader_epoch: int) -> None:
        """What was new since the last part came from batches of this epoch."""
        self._parts += self._part(leader_epoch)
        self._told = {source: landed.intervals for source, landed in self._landed.items()}

    def runs(self, leader_epoch: int) -> tuple[SourceRun, ...]:
        """Which events were new, by source; those since the last part are of this epoch."""
        over = (each for each in self._parts if each.source not in self._scattered)
        return (*over, *self._part(leader_epoch))

    def _part(self, leader_epoch: int) -> tuple[SourceRun, ...]:
        found = (
            (source, minus(landed.intervals, self._told.get(source, ())))
            for source, landed in sorted(self._landed.items())
        )
        return tuple(
            SourceRun(source=source, intervals=closed(intervals), leader_epoch=leader_epoch)
            for source, intervals in found
            if intervals
        )

    def new(self, arrived: Arrived) -> Arrived:
        """The rows that are no duplicates, in their order. From now on they have landed."""
        sources, seqs = arrived.sources, arrived.seqs
        if sources is None or seqs is None:
            return arrived
        numbered = _numbered(sources, seqs)
        if numbered is None:
            new = self._new_rows(sources, seqs)
        else:
            places = pc.indices_nonzero(numbered).cast(pa.int64())
            others = pc.indices_nonzero(pc.invert(numbered)).cast(pa.int64())
            among = self._new_rows(sources.take(places), seqs.take(places))
            new = _sorted(pa.concat_arrays([places.take(_rows(among, len(places))), others]))
        if isinstance(new, list):
            return arrived.within(new)
        return arrived if len(new) == len(arrived) else arrived.at(new)

    def note(self, arrived: Arrived, new: Arrived) -> None:
        """Where those of the rows lie that are not `new`."""
        offsets, landed = (each.rows.column(_OFFSET) for each in (arrived, new))
        repeated = arrived.where(pc.invert(pc.is_in(offsets, value_set=landed)))
        sources, seqs = repeated.sources, repeated.seqs
        if sources is None or seqs is None:
            return
        offsets = repeated.rows.column(_OFFSET)
        ended = sorted({*_cuts(sources, seqs), *_cuts(sources, offsets)})
        for start, end in pairwise([0, *ended]):
            if len(self.repeats) < MOST_REPEATS:
                source, seq, offset = (each[start].as_py() for each in (sources, seqs, offsets))
                self.repeats.append(Repeat(source, seq, offset, end - start))

    def _new_rows(self, sources: pa.Array, seqs: pa.Int64Array) -> "list[RowRange] | pa.Int64Array":
        """Where they stand, in ascending order."""
        cuts = _cuts(sources, seqs)
        if len(cuts) <= _FEW_RUNS + len(seqs) // _LONG_RUN:
            return _joined(list(self._kept(sources, seqs, cuts)))
        encoded = sources.dictionary_encode()
        columns = pa.table([encoded.indices, seqs], names=["source", "seq"])
        keys = [("source", "ascending"), ("seq", "ascending")]
        order = pc.sort_indices(columns, sort_keys=keys)  # stable: the first of equals comes first
        codes = encoded.indices.take(order)
        kept = self._kept(encoded.dictionary.take(codes), seqs.take(order), None)
        return _sorted(order.take(positions(kept, len(order))).cast(pa.int64()))

    def _kept(
        self, sources: pa.Array, seqs: pa.Array, cuts: Sequence[int] | None
    ) -> Iterator[RowRange]:
        cuts = _cuts(sources, seqs) if cuts is None else cuts
        starts = pa.array([0, *cuts[:-1]] if cuts else [], pa.int64())
        names, firsts = sources.take(starts).to_pylist(), seqs.take(starts).to_pylist()
        for source, seq, start, end in zip(names, firsts, starts.to_pylist(), cuts, strict=True):
            new = self._new(source, seq, seq + end - start)
            if repeated := end - start - size(new):
                self._repeat(source, repeated)
            for first, after in new:
                yield start + first - seq, start + after - seq

    def _new(self, source: str, first: int, after: int) -> Intervals:
        new = missing(self._landed_before(source), first, after)
        if not new or source in self._scattered:
            return new
        landed = self._landed.get(source)
        if landed is None:
            if self._tracked >= self._most_tracked:
                self.untracked += size(new)
                return new
            landed = self._landed[source] = GrowingIntervals()
        before = len(landed)
        new = tuple(part for each in new for part in landed.add(*each))
        self._tracked += len(landed) - before
        if len(landed) > self._most_intervals or self._tracked > self._most_tracked:
            self._tracked -= len(landed) - 1
            self._scattered.add(source)
            del self._landed[source]
        return new

    def _landed_before(self, source: str) -> Intervals:
        landed = self._seen.get(source, 0)
        if isinstance(landed, int):
            return intervals_of(landed)
        if (known := self._with_holes.get(source)) is None:
            known = self._with_holes[source] = intervals_of(landed)
        return known

    def _repeat(self, source: str, events: int) -> None:
        if source in self._repeated or len(self._repeated) < MOST_REPEATED:
            self._repeated[source] += events


def _numbered(sources: pa.Array, seqs: pa.Int64Array) -> pa.BooleanArray | None:
    """For which rows source and seq say which event it is; None: for all of them."""
    if pc.min(seqs).as_py() >= 0 and pc.min(pc.binary_length(sources)).as_py() > 0:
        return None
    return pc.and_(
        pc.greater_equal(seqs, pa.scalar(0, pa.int64())),
        pc.greater(pc.binary_length(sources), pa.scalar(0, pa.int32())),
    )


def _rows(found: "list[RowRange] | pa.Int64Array", rows: int) -> pa.Int64Array:
    return positions(found, rows) if isinstance(found, list) else found


def _sorted(rows: pa.Int64Array) -> pa.Int64Array:
    return rows.take(pc.sort_indices(rows))


def _cuts(sources: pa.Array, seqs: pa.Array) -> list[int]:
    """Where runs end: the source changes, or an event is not the one after that before it."""
    steps = pc.subtract(seqs, numbers(len(seqs)))
    cuts, changes = ends(steps), ends(sources)
    if len(changes) > 1:
        cuts = sorted({*cuts, *changes})
    return cuts


def _joined(stretches: Sequence[RowRange]) -> list[RowRange]:
    """The same rows, as few stretches as can be."""
    if not stretches:
        return []
    cuts = [(end, start) for (_, end), (start, _) in pairwise(stretches) if end != start]
    starts = [stretches[0][0], *(start for _, start in cuts)]
    return list(zip(starts, [*(end for end, _ in cuts), stretches[-1][1]], strict=True))
