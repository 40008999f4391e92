"""Rows of equal keys made one: sums, and the last of them. Columns of numpy. Pure."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

_MOST: Final = 1 << 62
_DIGIT: Final = 16  # bits
_MOST_DIGITS: Final = 1 << 48


class Grouped(NamedTuple):
    """Rows in the order of their keys. `keys` has one column for each that was given."""

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
        """For each row, which group it is in."""
        found = np.empty(len(self.order), np.int64)
        found[self.order] = np.repeat(np.arange(len(self)), self.ends - self.begins)
        return found

    def last(self) -> Numbers:
        """The row that comes last of each, in the order in which they were sorted."""
        return self.order[self.ends - 1]


def in_order(*columns: Numbers) -> Numbers:
    """The rows by the first column, then the second and so on; equal ones as they came. As one
    sort, if all of them fit into one number; as many as there are otherwise."""
    if not len(columns[0]):
        return np.empty(0, np.int64)
    together, room = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        least = int(column.min())
        width = int(column.max()) - least + 1
        room *= width
        if room > _MOST:
            return np.lexsort(tuple(reversed(columns)))
        if width > 1:
            together = together * width + (column - least)
    if (together[1:] >= together[:-1]).all():
        return np.arange(len(together))
    return _by_digits(together) if room <= _MOST_DIGITS else np.argsort(together, kind="stable")


def _by_digits(column: Numbers) -> Numbers:
    """Of numbers from zero on, the order; numbers of two bytes are sorted several times faster."""
    order = np.argsort(column.astype(np.uint16), kind="stable")
    rest = column >> _DIGIT
    while rest.any():
        order = order[np.argsort(rest[order].astype(np.uint16), kind="stable")]
        rest = rest >> _DIGIT
    return order


def grouped(*keys: Numbers, then: Sequence[Numbers] = ()) -> Grouped:
    """Rows that have the same in all of these columns; among them, in the order of `then`."""
    order = in_order(*keys, *then)
    count = len(order)
    sorted_keys = [key[order] for key in keys]
    if not count:
        return Grouped(order, order, order, sorted_keys)
    begins = np.zeros(count, np.bool_)
    begins[0] = True
    for key in sorted_keys:
        begins[1:] |= key[1:] != key[:-1]
    at = np.flatnonzero(begins)
    return Grouped(order, at, np.append(at[1:], count), [key[at] for key in sorted_keys])
