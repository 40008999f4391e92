"""Rows of equal keys made one: sums, and the last of them. Columns of numpy. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


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

    def last(self) -> Numbers:
        """The row that comes last of each, in the order in which they were sorted."""
        return self.order[self.ends - 1]


def grouped(*keys: Numbers, then: Sequence[Numbers] = ()) -> Grouped:
    """Rows that have the same in all of these columns; among them, in the order of `then`."""
    order = np.lexsort((*reversed(then), *reversed(keys)))
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
