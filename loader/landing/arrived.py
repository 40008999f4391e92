"""Rows on their way from the decoder to a file, with what decides where they go."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from loader.landing.stretches import positions

Stretch = tuple[int, int]  # of rows: from, and up to but without


@dataclass(frozen=True, slots=True)
class Arrived:
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

    def within(self, stretches: Sequence[Stretch]) -> Self:
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
