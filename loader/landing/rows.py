"""Rows on their way from the decoder to a file: what decides where they go, where that changes, and
what they weigh while they are held back. Columns are looked at as a whole: nothing here takes
Python's time for every row.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from loader.tables import FIRST_TIME

_numbers: list[pa.Int64Array] = [pa.array(range(1 << 14), pa.int64())]
RowRange = tuple[int, int]  # of rows: from, and up to but without
_COLUMN: Final = 700  # bytes, for each column of a batch, however few rows it has
_SHARED: Final = frozenset(("_cluster", "_topic", "_partition"))  # parts of one long column


def numbers(count: int) -> pa.Int64Array:
    """0, 1, 2 … `count` of them."""
    while len(known := _numbers[0]) < count:
        _numbers[0] = pa.concat_arrays([known, pc.add(known, pa.scalar(len(known), pa.int64()))])
    return known.slice(0, count)


def ends(column: pa.Array) -> list[int]:
    """Where stretches of the same value end; the last of them at the end."""
    found: list[int] = pc.run_end_encode(column).run_ends.to_pylist()
    return found


def beginnings(times: pa.Int64Array, length: int) -> pa.Int64Array:
    """For each time, where its interval of this length begins."""
    size = pa.scalar(length, pa.int64())
    # Division rounds towards zero: what is divided must not be negative.
    before = pa.scalar(-(FIRST_TIME // length) * length, pa.int64())
    shifted = pc.divide(pc.add(times, before), size)
    return pc.subtract(pc.multiply(shifted, size), before)


def counted(times: pa.Int64Array, length: int, bounds: tuple[int, int]) -> dict[int, int]:
    """How many times lie in each interval. `bounds` are the earliest and the latest of them."""
    first, last = (bound - bound % length for bound in bounds)
    if first == last:
        return {first: len(times)}
    found = pc.value_counts(beginnings(times, length))
    return dict(zip(*(part.to_pylist() for part in found.flatten()), strict=True))


def bounds(times: pa.Int64Array) -> tuple[int, int]:
    """The earliest and the latest of them; there must be one."""
    found = pc.min_max(times)
    return found["min"].as_py(), found["max"].as_py()


def positions(stretches: Iterable[tuple[int, int]], rows: int) -> pa.Int64Array:
    """The numbers of the rows in these stretches: from, and up to but without."""
    every = numbers(rows)
    parts = [every.slice(start, end - start) for start, end in stretches]
    return pa.concat_arrays(parts) if parts else every.slice(0, 0)


class Arrived(msgspec.Struct, frozen=True):
    """Rows, and of each its time, and which event it is if it says so."""

    rows: pa.RecordBatch
    times: pa.Int64Array
    sources: pa.Array | None
    seqs: pa.Int64Array | None

    def __len__(self) -> int:
        return len(self.times)

    def at(self, indices: pa.Array) -> Self:
        """These rows, copied."""
        return type(self)(
            self.rows.take(indices),
            self.times.take(indices),
            None if self.sources is None else self.sources.take(indices),
            None if self.seqs is None else self.seqs.take(indices),
        )

    def within(self, stretches: Sequence[RowRange]) -> Self:
        """These rows only. Copied, unless they are most of them and stand together: what is kept
        must not hold more in memory than it seems to."""
        if len(stretches) == 1:
            start, end = stretches[0]
            if end - start == len(self):
                return self
            if end - start > len(self) // 2:
                return self._slice(start, end - start)
        return self.at(positions(stretches, len(self)))

    def where(self, mask: pa.BooleanArray) -> Self:
        """The rows for which it is true."""
        return self if mask.true_count == len(self) else self.at(pc.indices_nonzero(mask))

    def _slice(self, start: int, count: int) -> Self:
        return type(self)(
            self.rows.slice(start, count),
            self.times.slice(start, count),
            None if self.sources is None else self.sources.slice(start, count),
            None if self.seqs is None else self.seqs.slice(start, count),
        )


class HeldBytes:
    """Weighs batches of one table."""

    def __init__(self, schema: pa.Schema) -> None:
        self._around = _COLUMN * sum(_columns(field.type) for field in schema)
        self._shared = [at for at, name in enumerate(schema.names) if name in _SHARED]

    def of(self, batch: pa.RecordBatch) -> int:
        """All that it keeps in memory, a slice too, and what Arrow needs around it. In a tenth of
        the time that `nbytes` takes."""
        size = self._around + batch.get_total_buffer_size()
        for at in self._shared:
            size -= batch.column(at).get_total_buffer_size()
        return int(size)


def part_of(batch: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
    """These rows. Copied, unless they are most of them: a few must not keep all in memory."""
    if end - start > batch.num_rows // 2:
        return batch.slice(start, end - start)
    return batch.take(numbers(end).slice(start))


def _columns(type_: pa.DataType) -> int:
    return 1 + sum(_columns(type_.field(at).type) for at in range(type_.num_fields))
