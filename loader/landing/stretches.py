"""Columns of numbers looked at as a whole: where they change, what interval of time they lie in.

Nothing here takes Python's time for every row.
"""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from loader.tables import FIRST_TIME

_numbers: list[pa.Int64Array] = [pa.array(range(1 << 14), pa.int64())]


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
