"""Rows on their way from the decoder to a file: grouping by time, splitting, and memory use. All
operations are on whole columns, never on single rows in Python."""

from collections.abc import Iterable, Sequence
from typing import Final, Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from loader.values.tables import FIRST_TIME

_numbers: list[pa.Int64Array] = [pa.array(range(1 << 14), pa.int64())]
RowRange = tuple[int, int]  # half-open
_COLUMN: Final = 700  # bytes, for each column of a batch, however few rows it has
_SHARED: Final = frozenset(("_cluster", "_topic", "_partition"))  # parts of one long column


def numbers(count: int) -> pa.Int64Array:
    """Returns the numbers 0 to `count` - 1."""
    while len(cached_numbers := _numbers[0]) < count:
        _numbers[0] = pa.concat_arrays(
            [cached_numbers, pc.add(cached_numbers, pa.scalar(len(cached_numbers), pa.int64()))]
        )
    return cached_numbers.slice(0, count)


def ends(column: pa.Array) -> list[int]:
    """The ends of stretches of equal values, including the end of the last one."""
    run_ends: list[int] = pc.run_end_encode(column).run_ends.to_pylist()
    return run_ends


def beginnings(times: pa.Int64Array, length: int) -> pa.Int64Array:
    """Returns, for each time, the beginning of its interval of this length."""
    size = pa.scalar(length, pa.int64())
    # Division rounds towards zero, so the dividend must not be negative.
    offset = pa.scalar(-(FIRST_TIME // length) * length, pa.int64())
    interval_numbers = pc.divide(pc.add(times, offset), size)
    return pc.subtract(pc.multiply(interval_numbers, size), offset)


def counted(times: pa.Int64Array, length: int, bounds: tuple[int, int]) -> dict[int, int]:
    """The number of times in each interval. `bounds` are the earliest and the latest time."""
    first, last = (bound - bound % length for bound in bounds)
    if first == last:
        return {first: len(times)}
    counts = pc.value_counts(beginnings(times, length))
    return dict(zip(*(part.to_pylist() for part in counts.flatten()), strict=True))


def bounds(times: pa.Int64Array) -> tuple[int, int]:
    """The earliest and the latest of the times, which must not be empty."""
    min_and_max = pc.min_max(times)
    return min_and_max["min"].as_py(), min_and_max["max"].as_py()


def positions(stretches: Iterable[tuple[int, int]], rows: int) -> pa.Int64Array:
    """The row numbers in these half-open stretches."""
    all_rows = numbers(rows)
    parts = [all_rows.slice(start, end - start) for start, end in stretches]
    return pa.concat_arrays(parts) if parts else all_rows.slice(0, 0)


class Arrived(msgspec.Struct, frozen=True):
    """Rows with their times, and with source and seq if they have a header."""

    rows: pa.RecordBatch
    times: pa.Int64Array
    sources: pa.Array | None
    seqs: pa.Int64Array | None

    def __len__(self) -> int:
        return len(self.times)

    def at(self, indices: pa.Array) -> Self:
        return type(self)(
            self.rows.take(indices),
            self.times.take(indices),
            None if self.sources is None else self.sources.take(indices),
            None if self.seqs is None else self.seqs.take(indices),
        )

    def within(self, stretches: Sequence[RowRange]) -> Self:
        """Returns these rows: as a copy, unless they are contiguous and most of the rows, so that a
        small slice does not keep a large batch in memory."""
        if len(stretches) == 1:
            start, end = stretches[0]
            if end - start == len(self):
                return self
            if end - start > len(self) // 2:
                return self._slice(start, end - start)
        return self.at(positions(stretches, len(self)))

    def where(self, mask: pa.BooleanArray) -> Self:
        return self if mask.true_count == len(self) else self.at(pc.indices_nonzero(mask))

    def _slice(self, start: int, count: int) -> Self:
        return type(self)(
            self.rows.slice(start, count),
            self.times.slice(start, count),
            None if self.sources is None else self.sources.slice(start, count),
            None if self.seqs is None else self.seqs.slice(start, count),
        )


class HeldBytes:
    """Measures the memory of a table's batches."""

    def __init__(self, schema: pa.Schema) -> None:
        self._around = _COLUMN * sum(_columns(field.type) for field in schema)
        self._shared = [index for index, name in enumerate(schema.names) if name in _SHARED]

    def of(self, batch: pa.RecordBatch) -> int:
        """The memory that a batch holds, including Arrow's overhead and buffers that it uses only
        in part. Ten times faster than `nbytes`."""
        size = self._around + batch.get_total_buffer_size()
        for index in self._shared:
            size -= batch.column(index).get_total_buffer_size()
        return int(size)


def part_of(batch: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
    """Returns these rows: as a copy, unless they are most of the rows, so that a few rows do not
    keep all in memory."""
    if end - start > batch.num_rows // 2:
        return batch.slice(start, end - start)
    return batch.take(numbers(end).slice(start))


def _columns(type_: pa.DataType) -> int:
    return 1 + sum(_columns(type_.field(index).type) for index in range(type_.num_fields))
