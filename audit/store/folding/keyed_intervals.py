"""Many sets of integers at once, as intervals with keys: three columns of equal length. Pure.

A key is the id of a set's owner: a partition, a source. "In order" means by key, then by beginning;
"united" means in order, and no two intervals of a key overlap or touch. A packed set is its pairs
as little-endian numbers of eight bytes.

`grouped` combines rows with equal keys: their sums, extremes, and the last of them.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from ground.intervals import Intervals

Numbers = NDArray[np.int64]

_MOST: Final = 1 << 62
_DIGIT: Final = 16  # bits
_MOST_DIGITS: Final = 1 << 48


class Grouped(NamedTuple):
    """Rows in the order of their keys. `keys` has the distinct keys, column by column."""

    order: Numbers
    begins: Numbers
    ends: Numbers
    keys: list[Numbers]

    def __len__(self) -> int:
        return len(self.begins)

    def sums(self, column: Numbers) -> Numbers:
        return np.add.reduceat(column[self.order], self.begins) if len(self) else column[:0]

    def least(self, column: Numbers) -> Numbers:
        return np.minimum.reduceat(column[self.order], self.begins) if len(self) else column[:0]

    def most(self, column: Numbers) -> Numbers:
        return np.maximum.reduceat(column[self.order], self.begins) if len(self) else column[:0]

    def numbered(self) -> Numbers:
        """Returns the group number of each row."""
        numbers = np.empty(len(self.order), np.int64)
        numbers[self.order] = np.repeat(np.arange(len(self)), self.ends - self.begins)
        return numbers

    def last(self) -> Numbers:
        """Returns the last row of each group, in sorted order."""
        return self.order[self.ends - 1]


def in_order(*columns: Numbers) -> Numbers:
    """Sorts rows by the first column, then by the second, and so on; stable. One sort is enough if
    all columns together fit into one number."""
    if not len(columns[0]):
        return np.empty(0, np.int64)
    grouping, key_range = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        lowest = int(column.min())
        width = int(column.max()) - lowest + 1
        key_range *= width
        if key_range > _MOST:
            return np.lexsort(tuple(reversed(columns)))
        if width > 1:
            grouping = grouping * width + (column - lowest)
    if (grouping[1:] >= grouping[:-1]).all():
        return np.arange(len(grouping))
    return (
        _by_digits(grouping) if key_range <= _MOST_DIGITS else np.argsort(grouping, kind="stable")
    )


def _by_digits(column: Numbers) -> Numbers:
    """Sorts non-negative numbers by two bytes at a time, which is several times faster."""
    order = np.argsort(column.astype(np.uint16), kind="stable")
    higher_digits = column >> _DIGIT
    while higher_digits.any():
        order = order[np.argsort(higher_digits[order].astype(np.uint16), kind="stable")]
        higher_digits = higher_digits >> _DIGIT
    return order


def grouped(*keys: Numbers, then: Sequence[Numbers] = ()) -> Grouped:
    """Groups rows that have equal values in all of these columns. Within a group, rows are in the
    order of `then`."""
    order = in_order(*keys, *then)
    count = len(order)
    sorted_keys = [key[order] for key in keys]
    if not count:
        return Grouped(order, order, order, sorted_keys)
    is_first = np.zeros(count, np.bool_)
    is_first[0] = True
    for key in sorted_keys:
        is_first[1:] |= key[1:] != key[:-1]
    begins = np.flatnonzero(is_first)
    return Grouped(
        order, begins, np.append(begins[1:], count), [key[begins] for key in sorted_keys]
    )


Mask = NDArray[np.bool_]

PAIR: Final = 16  # bytes
_LOW: Final = 32


class Keyed(msgspec.Struct, frozen=True):
    """Half-open intervals, each with a key."""

    key: Numbers
    first: Numbers
    end: Numbers

    @classmethod
    def of_packed(cls, keys: Numbers, packed: Sequence[bytes]) -> Self:
        lengths = np.fromiter(map(len, packed), np.int64, len(packed)) // PAIR
        pairs = np.frombuffer(b"".join(packed), "<i8").reshape(-1, 2)
        return cls(np.repeat(keys, lengths), pairs[:, 0], pairs[:, 1])

    def and_(self, other: Self) -> Self:
        return type(self)(
            np.concatenate((self.key, other.key)),
            np.concatenate((self.first, other.first)),
            np.concatenate((self.end, other.end)),
        )

    def where(self, mask: Mask) -> Self:
        return type(self)(self.key[mask], self.first[mask], self.end[mask])

    def united(self) -> Self:
        """Unites intervals; empty and backward intervals are left out."""
        if (self.end <= self.first).any():
            return self.where(self.end > self.first).united()
        if not len(self.key):
            return self
        order = in_order(self.key, self.first)
        key, first, end = self.key[order], self.first[order], self.end[order]
        running_ends = running_most(key, end)
        is_first = np.ones(len(key), np.bool_)
        is_first[1:] = (key[1:] != key[:-1]) | (first[1:] > running_ends[:-1])
        first_rows = np.flatnonzero(is_first)
        ends = np.append(first_rows[1:] - 1, len(key) - 1)
        return type(self)(key[first_rows], first[first_rows], running_ends[ends])

    def groups(self) -> tuple[Numbers, Numbers, Numbers]:
        """Returns each key, with the first row of its intervals and the row after the last.
        Requires ordered intervals."""
        return groups(self.key)

    def packed(self) -> tuple[Numbers, list[bytes]]:
        """Returns the keys, and the packed set of each. Requires united intervals."""
        keys, first_rows, ends = self.groups()
        data = np.column_stack((self.first, self.end)).astype("<i8").tobytes()
        pairs = zip((first_rows * PAIR).tolist(), (ends * PAIR).tolist(), strict=True)
        return keys, [data[begin:end] for begin, end in pairs]

    def last_begun(self, keys: Numbers, values: Numbers) -> Numbers:
        """Returns, for each value, the row of the last interval of its key that begins at or before
        the value; -1 if there is none. Requires ordered intervals."""
        if not len(self.key):
            return np.full(len(keys), -1, np.int64)
        count = len(self.key)
        key = np.concatenate((self.key, keys))
        value = np.concatenate((self.first, values))
        is_query = np.zeros(len(key), np.bool_)
        is_query[count:] = True
        order = in_order(key, value, is_query.astype(np.int64))
        last_rows = np.cumsum(~is_query[order]) - 1
        row_places = np.empty(len(key), np.int64)
        row_places[order] = last_rows
        query_places = row_places[count:]
        return np.where((query_places >= 0) & (self.key[query_places] == keys), query_places, -1)

    def cover(self, other: Self) -> Mask:
        """Returns the mask of the intervals in `other` that are within one of these intervals.
        Requires united intervals."""
        interval_rows = self.last_begun(other.key, other.first)
        if not len(self.key):
            return np.zeros(len(other.key), np.bool_)
        return (interval_rows >= 0) & (self.end[interval_rows] >= other.end)

    def overlap(self, other: Self) -> Mask:
        """Returns the mask of the intervals in `other` that overlap one of these intervals.
        Requires united intervals."""
        if not len(self.key):
            return np.zeros(len(other.key), np.bool_)
        interval_rows = self.last_begun(other.key, other.end - 1)
        return (interval_rows >= 0) & (self.end[interval_rows] > other.first)


def groups(key: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Returns the distinct values of consecutive keys, each with its first row and the row after
    its last."""
    if not len(key):
        return key, key, key
    first_rows = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    return key[first_rows], first_rows, np.append(first_rows[1:], len(key))


def running_most(key: Numbers, value: Numbers) -> Numbers:
    """Returns, for each row, the greatest value so far with the same key. Keys must be in ascending
    order."""
    if len(value) and (value[1:] >= value[:-1])[key[1:] == key[:-1]].all():
        return value
    values, rank = np.unique(value, return_inverse=True)
    _, first_rows, ends = groups(key)
    group_numbers = np.repeat(np.arange(len(first_rows)), ends - first_rows)
    running_ranks = np.maximum.accumulate((group_numbers << _LOW) | rank)
    return np.asarray(values[running_ranks & ((1 << _LOW) - 1)])


def none() -> Keyed:
    no_rows = np.empty(0, np.int64)
    return Keyed(no_rows, no_rows, no_rows)


def pairs_of(packed: bytes) -> Intervals:
    """Returns the intervals of a packed set as pairs."""
    pairs = np.frombuffer(packed, "<i8").reshape(-1, 2).tolist()
    return tuple((first, end) for first, end in pairs)
