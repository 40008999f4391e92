"""Parquet files as one, in a task: rows read and written natively. All have the same columns."""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from loader.config import FileCompression
from loader.landing.slice_files import SliceFiles
from loader.tables import Hour

NUMBER: Final = "number"
HOUR: Final = "hour"
CONTENT: Final = "content"
HELD_BYTES: Final = 128 * 1024 * 1024  # rows that become a row group, in memory


def task(files: Iterable[pa.RecordBatch], compression: str) -> Iterator[pa.RecordBatch]:
    """All that one task does."""
    pa.set_cpu_count(1)
    yield from joined(files, FileCompression(compression))


def joined(
    files: Iterable[pa.RecordBatch],
    compression: FileCompression,
    *,
    held_bytes: int = HELD_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Pieces of new files, as a landing task gives them. A row is a whole file: all of the same
    number, which follow one another, become one file of that hour."""
    number, joining = -1, None
    for batch in files:
        for at in range(batch.num_rows):
            which = batch.column(NUMBER)[at].as_py()
            if joining is None or which != number:
                if joining is not None:
                    yield from joining.end()
                number, hour = which, Hour(batch.column(HOUR)[at].as_py())
                new = SliceFiles(number, compression, held_bytes, most_hours=1)
                joining = _Joining(new, hour, held_bytes)
            content = pa.BufferReader(batch.column(CONTENT)[at].as_buffer())
            yield from joining.add(pq.ParquetFile(content))
    if joining is not None:
        yield from joining.end()


def join_files(
    files: Iterable[pq.ParquetFile], number: int, hour: Hour, compression: FileCompression
) -> Iterator[pa.RecordBatch]:
    """Pieces of the one file of that hour that they become."""
    new = SliceFiles(number, compression, HELD_BYTES, most_hours=1)
    joining = _Joining(new, hour, HELD_BYTES)
    for each in files:
        yield from joining.add(each)
    yield from joining.end()


class _Joining:
    """One new file."""

    def __init__(self, files: SliceFiles, hour: Hour, held_bytes: int) -> None:
        self._files = files
        self._hour = hour
        self._held_bytes = held_bytes
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0

    def add(self, file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group, use_threads=False)
            self._held += rows.to_batches()
            self._bytes += rows.nbytes
            if self._bytes >= self._held_bytes:
                yield from self._pieces()

    def end(self) -> Iterator[pa.RecordBatch]:
        if self._held:
            yield from self._pieces()
        yield from self._files.end()

    def _pieces(self) -> Iterator[pa.RecordBatch]:
        yield from self._files.rows(self._hour, self._held)
        self._held, self._bytes = [], 0
