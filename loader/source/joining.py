"""Record batches on their way to Spark: small ones joined, since each has its price.

An agent's batch may have few rows, and a record batch costs Spark about as much as a hundred rows.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

ROWS: Final = 16_384
BYTES: Final = 4 * 1024 * 1024


class Joining:
    """Of one task. Rows come out in the order in which they came in."""

    def __init__(self, *, rows: int = ROWS, most_bytes: int = BYTES) -> None:
        self._enough_rows = rows
        self._enough_bytes = most_bytes
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= self._enough_rows or self._bytes >= self._enough_bytes:
            yield from self.end()

    def end(self) -> Iterator[pa.RecordBatch]:
        """What is waiting."""
        if self._waiting:
            yield self._waiting[0] if len(self._waiting) == 1 else pa.concat_batches(self._waiting)
        self._waiting, self._rows, self._bytes = [], 0, 0
