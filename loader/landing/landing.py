"""A slice on its way: batches in, pieces of files out, and a report at the end.

What is held back is bounded, whatever the slice has: see held_rows.py and slice_files.py.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from loader.decoding.decoded import Dead, Decoded
from loader.landing.arrived import Arrived
from loader.landing.dead_letters import DeadLetters
from loader.landing.duplicates import Duplicates
from loader.landing.held_rows import HeldRows
from loader.landing.landed_slice import LandedSlice
from loader.landing.pieces import MOST_HOURS, report_piece
from loader.landing.slice_files import SliceFiles
from loader.landing.stretches import beginnings, bounds
from loader.tables import HOUR_MILLIS, Slice, hour_of
from loader.task_spec import NOTHING_SEEN, Seen, TaskSpec
from wire.batch import BatchHeader

_DEAD_BYTES: Final = 8 * 1024 * 1024
_OFFSET: Final = "_offset"


class Landing:
    """One slice."""

    def __init__(
        self,
        piece: Slice,
        spec: TaskSpec,
        seen: Seen = NOTHING_SEEN,
        *,
        most_hours: int = MOST_HOURS,
    ) -> None:
        self._piece = piece
        self._only_hours = frozenset(spec.only_hours)
        self._slice = LandedSlice(piece, spec.window_millis, spec.times, self._only_hours)
        self._duplicates = Duplicates(seen)
        self._memory_bytes = spec.memory_bytes
        self._held: HeldRows | None = None  # made for the columns of the first rows
        self._dead = DeadLetters(piece)
        self._files = SliceFiles(
            piece.number, spec.compression, spec.memory_bytes, most_hours=most_hours
        )

    def take(self, header: BatchHeader, decoded: Decoded) -> Iterator[pa.RecordBatch]:
        """The next batch of the slice, with what was made of it."""
        dead, arrived = decoded.dead, _arrived(decoded)
        if header.base_offset < self._piece.first:
            dead = tuple(each for each in dead if each.offset >= self._piece.first)
            arrived = arrived and self._from_first(arrived)
        rows = 0 if arrived is None else len(arrived)
        self._slice.read(header, rows + len(dead), decoded.schema_ids)
        if dead:
            yield from self._bury(dead)
        if arrived is not None and rows:
            yield from self._land(arrived)

    def end(self, next_offset: int, leader_epoch: int) -> Iterator[pa.RecordBatch]:
        """All that is held back, and the report. The slice was read up to `next_offset`, and what
        lies before that is of `leader_epoch`; -1 if there was nothing."""
        if self._held is not None:
            for hour, batches in self._held.take_all():
                yield from self._files.rows(hour, batches)
        if (letters := self._dead.take()) is not None:
            yield from self._files.dead(letters)
        yield from self._files.end()
        mixed = self._files.mixed_hours
        report = self._slice.report(next_offset, leader_epoch, self._duplicates, mixed)
        yield report_piece(report)

    def _land(self, arrived: Arrived) -> Iterator[pa.RecordBatch]:
        wanted = self._of_hours(arrived) if self._only_hours else arrived
        self._slice.passed_over(len(arrived) - len(wanted))
        if not len(wanted):
            return
        new = self._duplicates.new(wanted)
        if len(new) < len(wanted):
            self._slice.repeated(wanted.times, new.times)
        if not len(new):
            return
        within = bounds(new.times)
        self._slice.landed(new.times, within)
        if self._held is None:
            self._held = HeldRows(new.rows.schema, self._memory_bytes)
        self._held.add(new.rows, new.times, within)
        if self._held.is_full:
            for hour, batches in self._held.take_largest():
                yield from self._files.rows(hour, batches)

    def _bury(self, dead: Sequence[Dead]) -> Iterator[pa.RecordBatch]:
        wanted = [
            each
            for each in dead
            if not self._only_hours or hour_of(each.timestamp) in self._only_hours
        ]
        self._slice.passed_over(len(dead) - len(wanted))
        self._slice.died(wanted)
        self._dead.add(wanted)
        if self._dead.bytes >= _DEAD_BYTES and (letters := self._dead.take()) is not None:
            yield from self._files.dead(letters)

    def _from_first(self, arrived: Arrived) -> Arrived:
        first = pa.scalar(self._piece.first, pa.int64())
        return arrived.where(pc.greater_equal(arrived.rows.column(_OFFSET), first))

    def _of_hours(self, arrived: Arrived) -> Arrived:
        first, last = map(hour_of, bounds(arrived.times))
        if first == last and first in self._only_hours:
            return arrived
        hours = beginnings(arrived.times, HOUR_MILLIS)
        wanted = pa.array(sorted(self._only_hours), pa.int64())
        return arrived.where(pc.is_in(hours, value_set=wanted))


def _arrived(decoded: Decoded) -> Arrived | None:
    if decoded.rows is None or not decoded.rows.num_rows:
        return None
    return Arrived(decoded.rows, decoded.times, decoded.sources, decoded.seqs)
