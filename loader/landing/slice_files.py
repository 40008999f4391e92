"""The files that a slice becomes, of which all are open until its end.

Row groups are cut by what they take in memory, so that a piece is not too large to pass through
Spark's: by how well the rows of this slice pack, once that is known.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from loader.config import Compression
from loader.landing.memory import HeldBytes
from loader.landing.parquet_settings import writer_settings
from loader.landing.parquet_stream import ParquetStream
from loader.landing.pieces import HOUR_COLUMN, MOST_HOURS, FileKind, piece
from loader.tables import Hour

MOST_ROWS: Final = 1 << 20  # of a row group
PIECE_BYTES: Final = 32 * 1024 * 1024
_AIM: Final = 0.75  # of these: how well rows pack changes
_MOST_AT_ONCE: Final = 8  # times PIECE_BYTES, in memory, however well they pack


class SliceFiles:
    """Files of rows by hour, one for hours beyond `most_hours`, and one for dead letters."""

    def __init__(
        self, number: int, compression: Compression, memory_bytes: int, *, most_hours: int
    ) -> None:
        self._number = number
        self._compression = compression
        self._most_hours = most_hours
        self._mixed_bytes = memory_bytes // 8
        self._files: dict[Hour, ParquetStream] = {}
        self._settings: dict[str, Any] | None = None
        self._group_bytes = PIECE_BYTES
        self._dead: ParquetStream | None = None
        self._mixed: _Mixed | None = None

    @property
    def mixed_hours(self) -> frozenset[Hour]:
        return frozenset() if self._mixed is None else frozenset(self._mixed.hours)

    def rows(self, hour: Hour, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pieces with these rows; some may come later."""
        if hour not in self._files and len(self._files) >= self._most_hours:
            if self._mixed is None:
                self._mixed = _Mixed(batches[0].schema)
            self._mixed.add(hour, batches)
            if self._mixed.bytes >= self._mixed_bytes:
                yield from self._mixed_pieces()
            return
        for group in row_groups(batches, self._group_bytes):
            if hour not in self._files:
                self._files[hour] = self._open(group)
            value = self._files[hour].row_group(group)
            self._learn(group, value)
            yield piece(FileKind.ROWS, self._number, hour, value)

    def dead(self, letters: pa.Table) -> Iterator[pa.RecordBatch]:
        if self._dead is None:
            settings = writer_settings(letters, self._compression)
            self._dead = ParquetStream(letters.schema, settings)
        yield piece(FileKind.DEAD, self._number, None, self._dead.row_group(letters))

    def end(self) -> Iterator[pa.RecordBatch]:
        """The last pieces of all files."""
        for hour, file in self._files.items():
            yield piece(FileKind.ROWS, self._number, hour, file.end())
        if self._mixed is not None:
            yield from self._mixed_pieces()
            assert self._mixed.file is not None
            yield piece(FileKind.MIXED, self._number, None, self._mixed.file.end())
        if self._dead is not None:
            yield piece(FileKind.DEAD, self._number, None, self._dead.end())

    def _open(self, rows: pa.Table) -> ParquetStream:
        if self._settings is None:
            self._settings = writer_settings(rows, self._compression)
        return ParquetStream(rows.schema, self._settings)

    def _learn(self, rows: pa.Table, value: bytes) -> None:
        """From here on pieces come out at about the size that is aimed at."""
        wanted = int(PIECE_BYTES * _AIM * rows.nbytes / max(len(value), 1))
        self._group_bytes = min(max(wanted, PIECE_BYTES // 2), _MOST_AT_ONCE * PIECE_BYTES)

    def _mixed_pieces(self) -> Iterator[pa.RecordBatch]:
        assert self._mixed is not None
        for group in row_groups(self._mixed.take(), self._group_bytes):
            if self._mixed.file is None:
                settings = writer_settings(group, self._compression)
                self._mixed.file = ParquetStream(group.schema, settings)
            value = self._mixed.file.row_group(group)
            yield piece(FileKind.MIXED, self._number, None, value)


class _Mixed:
    """Rows of hours that have no files of their own, with the hour as a last column."""

    def __init__(self, schema: pa.Schema) -> None:
        self.file: ParquetStream | None = None
        self.hours: set[Hour] = set()
        self.bytes = 0
        self._schema = schema.append(pa.field(HOUR_COLUMN, pa.int64()))
        self._held = HeldBytes(self._schema)
        self._batches: list[pa.RecordBatch] = []

    def add(self, hour: Hour, batches: Sequence[pa.RecordBatch]) -> None:
        """Copies them: they may be small parts of something large."""
        rows = pa.concat_batches(batches)
        column = pa.repeat(pa.scalar(hour, pa.int64()), rows.num_rows)
        rows = pa.RecordBatch.from_arrays([*rows.columns, column], schema=self._schema)
        self.hours.add(hour)
        self._batches.append(rows)
        self.bytes += self._held.of(rows)

    def take(self) -> list[pa.RecordBatch]:
        taken, self._batches, self.bytes = self._batches, [], 0
        return taken


def row_groups(batches: Sequence[pa.RecordBatch], most_bytes: int) -> Iterator[pa.Table]:
    """All rows in their order, in tables of about so many bytes at most."""
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        for part in _divided(batch, most_bytes):
            more = part.nbytes
            if group and (size + more > most_bytes or rows + part.num_rows > MOST_ROWS):
                yield pa.Table.from_batches(group)
                group, rows, size = [], 0, 0
            group.append(part)
            rows += part.num_rows
            size += more
    if group:
        yield pa.Table.from_batches(group)


def _divided(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    parts = max(-(-batch.nbytes // most_bytes), -(-batch.num_rows // MOST_ROWS))
    step = max(-(-batch.num_rows // max(parts, 1)), 1)
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


__all__ = ["MOST_HOURS", "MOST_ROWS", "PIECE_BYTES", "SliceFiles", "row_groups"]
