"""Joins Parquet files into one with the columns of the table, in a task that reads and writes rows
natively."""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from loader.config import FileCompression
from loader.decoding.spark_types import columns_of_spark
from loader.decoding.table_columns import in_columns
from loader.landing.pieces import FileKind, piece
from loader.landing.slice_files import SliceFiles
from loader.values.tables import Hour

NUMBER: Final = "number"
HOUR: Final = "hour"
CONTENT: Final = "content"
HELD_BYTES: Final = 128 * 1024 * 1024  # rows of a row group, in memory


def task(
    files: Iterable[pa.RecordBatch], compression: str, columns: str
) -> Iterator[pa.RecordBatch]:
    """`columns` are the table's, as Spark's JSON."""
    pa.set_cpu_count(1)
    yield from joined(files, FileCompression(compression), columns_of_spark(columns))


def joined(
    files: Iterable[pa.RecordBatch],
    compression: FileCompression,
    columns: pa.Schema,
    *,
    held_bytes: int = HELD_BYTES,
) -> Iterator[pa.RecordBatch]:
    """The pieces of the new files, like those of a landing task. A row is a whole file; consecutive
    files of the same number become one file of that hour. Its report is its SHA-256 in
    hexadecimal."""
    number, joined_file = -1, None
    for batch in files:
        for index in range(batch.num_rows):
            file_number = batch.column(NUMBER)[index].as_py()
            if joined_file is None or file_number != number:
                if joined_file is not None:
                    yield from joined_file.end()
                number, hour = file_number, Hour(batch.column(HOUR)[index].as_py())
                new_files = SliceFiles(number, compression, held_bytes, most_hours=1)
                joined_file = _Joining(new_files, number, hour, columns, held_bytes)
            content = pa.BufferReader(batch.column(CONTENT)[index].as_buffer())
            yield from joined_file.add(pq.ParquetFile(content))
    if joined_file is not None:
        yield from joined_file.end()


def join_files(
    files: Iterable[pq.ParquetFile],
    number: int,
    hour: Hour,
    compression: FileCompression,
    columns: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """Joins files of one hour, and returns the pieces of the new file."""
    new_files = SliceFiles(number, compression, HELD_BYTES, most_hours=1)
    joining = _Joining(new_files, number, hour, columns, HELD_BYTES)
    for file in files:
        yield from joining.add(file)
    yield from joining.end()


class _Joining:
    def __init__(
        self, files: SliceFiles, number: int, hour: Hour, columns: pa.Schema, held_bytes: int
    ) -> None:
        self._files = files
        self._number = number
        self._hour = hour
        self._columns = columns
        self._held_bytes = held_bytes
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0

    def add(self, file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group, use_threads=False)
            batches = [in_columns(batch, self._columns) for batch in rows.to_batches()]
            self._held += batches
            self._bytes += sum(batch.nbytes for batch in batches)
            if self._bytes >= self._held_bytes:
                yield from self._pieces()

    def end(self) -> Iterator[pa.RecordBatch]:
        if self._held:
            yield from self._pieces()
        yield from self._files.end()
        for digest in self._files.digests.values():
            yield piece(FileKind.REPORT, self._number, None, digest.hex().encode())

    def _pieces(self) -> Iterator[pa.RecordBatch]:
        yield from self._files.rows(self._hour, self._held)
        self._held, self._bytes = [], 0
