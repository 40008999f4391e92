"""Holds rows back, by hour, until there are enough of them for writing.

A batch of one hour is kept as it is; one in which the hour changes once or twice is split there.
Batches of many hours are kept until there are enough rows to sort all of them by hour at once,
which costs little for each row, however many hours there are. Small batches are joined, since each
costs memory beside its values.

Rows of an hour stay in the order in which they came, except for those of many-hour batches.
"""

from collections.abc import Iterator
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from loader.landing.rows import HeldBytes, RowRange, beginnings, ends, part_of, positions
from loader.values.tables import HOUR_MILLIS, Hour, hour_of

_FEW_ROWS: Final = 1024
_FEW_HOURS: Final = 4  # stretches of one hour in a batch
_MANY_BATCHES: Final = 64
_JOINED_BYTES: Final = 16 * 1024 * 1024
_LARGEST_BLOCK: Final = 256 * 1024 * 1024  # a text column must stay below two gigabytes
_BLOCK_SHARE: Final = 8  # this part of the memory is sorted at a time


class _HourRows(msgspec.Struct):
    """Batches of one hour, in order of arrival."""

    held: HeldBytes
    batches: list[pa.RecordBatch] = []
    small: list[pa.RecordBatch] = []
    bytes: int = 0

    def add(self, batch: pa.RecordBatch, size: int) -> int:
        """Adds rows. Returns the number of additional bytes held."""
        previous_bytes = self.bytes
        self.bytes += size
        if batch.num_rows < _FEW_ROWS:
            self.small.append(batch)
            if len(self.small) >= _MANY_BATCHES:
                self._join()
        else:
            self._join()
            self.batches.append(batch)
        return self.bytes - previous_bytes

    def all(self) -> list[pa.RecordBatch]:
        return self.batches + self.small

    def _join(self) -> None:
        if len(self.small) > 1:
            separate_bytes = sum(map(self.held.of, self.small))
            if separate_bytes < _JOINED_BYTES:
                self.small = [pa.concat_batches(self.small)]
                self.bytes += self.held.of(self.small[0]) - separate_bytes
        self.batches += self.small
        self.small = []


class _Block:
    """Rows of many hours, sorted by hour."""

    def __init__(self, held: HeldBytes, rows: pa.RecordBatch, hours: pa.Int64Array) -> None:
        """Takes rows in any order."""
        self._held = held
        order = pc.sort_indices(hours)  # stable: within an hour they stay as they came
        self.rows = rows.take(order)
        sorted_hours = hours.take(order)
        hour_ends = ends(sorted_hours)
        hour_starts = [0, *hour_ends[:-1]]
        hour_values = sorted_hours.take(pa.array(hour_starts, pa.int64())).to_pylist()
        self.stretches: dict[Hour, RowRange] = dict(
            zip(map(Hour, hour_values), zip(hour_starts, hour_ends, strict=True), strict=True)
        )
        self.bytes = self._held.of(self.rows)

    def size_of(self, stretch: RowRange) -> int:
        share = (stretch[1] - stretch[0]) / self.rows.num_rows
        return int(self.bytes * share)

    def take(self, hour: Hour) -> list[pa.RecordBatch]:
        if (stretch := self.stretches.pop(hour, None)) is None:
            return []
        return [self.rows.slice(stretch[0], stretch[1] - stretch[0])]

    def shrink(self) -> None:
        """Frees the memory of rows that were taken."""
        self.rows = self.rows.take(positions(self.stretches.values(), self.rows.num_rows))
        start = 0
        for hour, (old_start, old_end) in self.stretches.items():
            self.stretches[hour] = (start, start + old_end - old_start)
            start += old_end - old_start
        self.bytes = self._held.of(self.rows)


class HeldRows:
    def __init__(self, schema: pa.Schema, memory_bytes: int) -> None:
        self._held = HeldBytes(schema)
        self._memory_bytes = memory_bytes
        self._block_bytes = min(memory_bytes // _BLOCK_SHARE, _LARGEST_BLOCK)
        self._hours: dict[Hour, _HourRows] = {}
        self._unsorted: list[tuple[pa.RecordBatch, pa.Int64Array]] = []
        self._unsorted_bytes = 0
        self._blocks: list[_Block] = []
        self.bytes = 0

    @property
    def is_full(self) -> bool:
        return self.bytes >= self._memory_bytes

    def add(self, rows: pa.RecordBatch, times: pa.Int64Array, bounds: tuple[int, int]) -> None:
        """Adds rows; `bounds` are their earliest and latest times."""
        first_hour, last_hour = map(hour_of, bounds)
        if first_hour == last_hour:
            self._add_to(first_hour, rows)
            return
        hours = beginnings(times, HOUR_MILLIS)
        hour_ends = ends(hours)
        if len(hour_ends) <= _FEW_HOURS:
            for start, end in zip([0, *hour_ends], hour_ends, strict=False):
                self._add_to(Hour(hours[start].as_py()), part_of(rows, start, end))
            return
        size = self._held.of(rows)
        self._unsorted.append((rows, hours))
        self._unsorted_bytes += size
        self.bytes += size
        if self._unsorted_bytes >= self._block_bytes:
            self._sort()

    def take_largest(self) -> Iterator[tuple[Hour, list[pa.RecordBatch]]]:
        """Takes the hours with the most rows until half of the memory is free. The iterator must be
        exhausted."""
        yield from self._take(self._memory_bytes // 2)

    def take_all(self) -> Iterator[tuple[Hour, list[pa.RecordBatch]]]:
        """All hours, those with the most rows first."""
        yield from self._take(0)

    def _add_to(self, hour: Hour, rows: pa.RecordBatch) -> None:
        if hour not in self._hours:
            self._hours[hour] = _HourRows(self._held)
        self.bytes += self._hours[hour].add(rows, self._held.of(rows))

    def _take(self, most_bytes: int) -> Iterator[tuple[Hour, list[pa.RecordBatch]]]:
        self._sort()
        for hour, size in sorted(self._sizes().items(), key=lambda item: (-item[1], item[0])):
            if self.bytes <= most_bytes:
                break
            self.bytes -= size
            hour_rows = self._hours.pop(hour, None)
            batches = [batch for block in self._blocks for batch in block.take(hour)]
            yield hour, [*(hour_rows.all() if hour_rows else ()), *batches]
        self._blocks = [block for block in self._blocks if block.stretches]
        for block in self._blocks:
            block.shrink()
        hour_bytes = sum(rows.bytes for rows in self._hours.values())
        self.bytes = hour_bytes + sum(block.bytes for block in self._blocks)

    def _sizes(self) -> dict[Hour, int]:
        sizes = {hour: rows.bytes for hour, rows in self._hours.items()}
        for block in self._blocks:
            for hour, stretch in block.stretches.items():
                sizes[hour] = sizes.get(hour, 0) + block.size_of(stretch)
        return sizes

    def _sort(self) -> None:
        if self._unsorted:
            rows = pa.concat_batches([rows for rows, _ in self._unsorted])
            hours = pa.concat_arrays([hours for _, hours in self._unsorted])
            self._unsorted = []
            block = _Block(self._held, rows, hours)
            self._blocks.append(block)
            self.bytes += block.bytes - self._unsorted_bytes
            self._unsorted_bytes = 0
