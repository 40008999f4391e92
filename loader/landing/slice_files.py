"""The files of a slice, all open until its end, and written piece by piece.

Row groups are sized by memory, so that a piece is not too large to pass through Spark; the size
adapts to how well the rows of this slice compress.

A piece is a row group, the last one with the footer. Spark adds PIECE_END after each piece. The
writer writes the same bytes there, so it knows the file position of the next row group. No reader
looks at these bytes: the footer has the positions of columns. The SHA-256 of a file is computed
from the same bytes, while they are written.

The first rows of a slice decide the encoding of columns. Measured on 19 columns of a web log, 258
bytes a row in memory: every column with a dictionary, pyarrow's default, 0.58 µs and 71 bytes a
row; with these settings, 0.44 µs and 62 bytes. Spark, Hive 3, Trino and DuckDB read all of it.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from loader.config import FileCompression
from loader.landing.pieces import HOUR_COLUMN, PIECE_END, FileKind, piece
from loader.landing.rows import HeldBytes
from loader.values.tables import UNKNOWN_DIGEST, Digest, Hour

_SAMPLE: Final = 20_000  # rows that decide the encoding of columns
_REPEATING: Final = 3  # a dictionary pays if a value occurs this often on average
_CODECS: Final[dict[FileCompression, dict[str, Any]]] = {
    FileCompression.ZSTD: {"compression": "zstd", "compression_level": 1},
    FileCompression.SNAPPY: {"compression": "snappy"},
    FileCompression.GZIP: {"compression": "gzip", "compression_level": 6},
    FileCompression.LZ4: {"compression": "lz4"},
    FileCompression.NONE: {"compression": "none"},
}
_END: Final = PIECE_END.encode()
MOST_ROWS: Final = 1 << 20  # of a row group
PIECE_BYTES: Final = 32 * 1024 * 1024
_AIM: Final = 0.75  # of PIECE_BYTES, since the compression ratio varies
_MOST_AT_ONCE: Final = 8  # times PIECE_BYTES, in memory, however well rows compress


def writer_settings(rows: pa.Table, compression: FileCompression) -> dict[str, Any]:
    """Arguments for pyarrow's ParquetWriter."""
    sample_rows = rows.slice(0, _SAMPLE).combine_chunks()
    dictionaries, encodings, statistics = [], {}, []
    for path, values in _leaves(sample_rows):
        if pa.types.is_boolean(values.type):
            statistics.append(path)
        elif pc.count_distinct(values).as_py() * _REPEATING <= len(values):
            dictionaries.append(path)
            statistics.append(path)
        elif _is_text(values.type):
            # No statistics: minimum and maximum of unique texts are useless.
            encodings[path] = "DELTA_LENGTH_BYTE_ARRAY"
        else:
            statistics.append(path)
            if _is_whole(values.type):
                encodings[path] = "DELTA_BINARY_PACKED"
    return {
        **_CODECS[compression],
        "use_dictionary": dictionaries or False,
        "column_encoding": encodings or None,
        "write_statistics": statistics or False,
        "store_schema": False,
    }


def _leaves(table: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    for name in table.schema.names:
        column = table.column(name)
        values = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        yield from _within(name, values)


def _within(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Parquet's columns below this one, with their paths in the file."""
    if pa.types.is_struct(values.type):
        for field, part in zip(values.type, values.flatten(), strict=True):
            yield from _within(f"{path}.{field.name}", part)
    elif pa.types.is_list(values.type):
        yield from _within(f"{path}.list.element", values.flatten())
    elif pa.types.is_map(values.type):
        yield from _within(f"{path}.key_value.key", values.keys)
        yield from _within(f"{path}.key_value.value", values.items)
    else:
        yield path, values


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_binary(type_))


def _is_whole(type_: pa.DataType) -> bool:
    """Whether values are stored as integers of 32 or 64 bits."""
    kinds = (pa.types.is_int32, pa.types.is_int64, pa.types.is_timestamp, pa.types.is_date32)
    return any(kind(type_) for kind in kinds)


class _Sink:
    """Collects the writer's output until it is taken, as a file for pyarrow."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(data)
        return len(data)

    def flush(self) -> None:
        """Does nothing: the data stays in memory."""

    def close(self) -> None:
        self.closed = True

    def take(self) -> bytes:
        data, self._parts = b"".join(self._parts), []
        return data


class ParquetStream:
    """Writes a Parquet file piece by piece, without keeping the pieces."""

    def __init__(self, schema: pa.Schema, settings: dict[str, Any]) -> None:
        self._sink = _Sink()
        self._hash = hashlib.sha256()
        self._file = pa.PythonFile(self._sink, mode="w")
        self._writer = pq.ParquetWriter(self._file, schema, **settings)

    def row_group(self, rows: pa.Table) -> bytes:
        self._write(rows)
        piece = self._sink.take()
        self._file.write(_END)
        self._sink.take()
        self._hash.update(piece)
        self._hash.update(_END)
        return piece

    def end(self, rows: pa.Table | None = None) -> bytes:
        """Ends the file, after adding these rows, if any. Returns its last piece."""
        if rows is not None:
            self._write(rows)
        self._writer.close()
        piece = self._sink.take()
        assert piece.endswith(_END)
        self._hash.update(piece)
        return piece[: -len(_END)]

    @property
    def digest(self) -> Digest:
        """The SHA-256 of the file, once it has ended."""
        return Digest(self._hash.digest())

    def _write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows, row_group_size=max(rows.num_rows, 1))


class SliceFiles:
    """Files of rows by hour, one file for hours beyond `most_hours`, and one file for dead
    letters."""

    def __init__(
        self, number: int, compression: FileCompression, memory_bytes: int, *, most_hours: int
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
    def digests(self) -> dict[Hour, Digest]:
        """The SHA-256 of each hour's own file, once all files have ended."""
        return {hour: file.digest for hour, file in sorted(self._files.items())}

    @property
    def dead_digest(self) -> Digest:
        """The SHA-256 of the file of dead letters, once it has ended; empty without one."""
        return UNKNOWN_DIGEST if self._dead is None else self._dead.digest

    @property
    def mixed_hours(self) -> frozenset[Hour]:
        return frozenset() if self._mixed is None else frozenset(self._mixed.hours)

    def rows(self, hour: Hour, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Returns the pieces that are ready after adding these rows; some rows may be held back."""
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
            self._adapt_size(group, value)
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

    def _adapt_size(self, rows: pa.Table, value: bytes) -> None:
        group_bytes = int(PIECE_BYTES * _AIM * rows.nbytes / max(len(value), 1))
        self._group_bytes = min(max(group_bytes, PIECE_BYTES // 2), _MOST_AT_ONCE * PIECE_BYTES)

    def _mixed_pieces(self) -> Iterator[pa.RecordBatch]:
        assert self._mixed is not None
        for group in row_groups(self._mixed.take(), self._group_bytes):
            if self._mixed.file is None:
                settings = writer_settings(group, self._compression)
                self._mixed.file = ParquetStream(group.schema, settings)
            value = self._mixed.file.row_group(group)
            yield piece(FileKind.MIXED, self._number, None, value)


class _Mixed:
    """Rows of hours without files of their own, with the hour as the last column."""

    def __init__(self, schema: pa.Schema) -> None:
        self.file: ParquetStream | None = None
        self.hours: set[Hour] = set()
        self.bytes = 0
        self._schema = schema.append(pa.field(HOUR_COLUMN, pa.int64()))
        self._held = HeldBytes(self._schema)
        self._batches: list[pa.RecordBatch] = []

    def add(self, hour: Hour, batches: Sequence[pa.RecordBatch]) -> None:
        """Adds a copy of these rows, as they may be small parts of large batches."""
        rows = pa.concat_batches(batches)
        column = pa.repeat(pa.scalar(hour, pa.int64()), rows.num_rows)
        rows = pa.RecordBatch.from_arrays([*rows.columns, column], schema=self._schema)
        self.hours.add(hour)
        self._batches.append(rows)
        self.bytes += self._held.of(rows)

    def take(self) -> list[pa.RecordBatch]:
        data, self._batches, self.bytes = self._batches, [], 0
        return data


def row_groups(batches: Sequence[pa.RecordBatch], most_bytes: int) -> Iterator[pa.Table]:
    """All rows in their order, in tables of at most about `most_bytes`."""
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        for part in _divided(batch, most_bytes):
            part_bytes = part.nbytes
            if group and (size + part_bytes > most_bytes or rows + part.num_rows > MOST_ROWS):
                yield pa.Table.from_batches(group)
                group, rows, size = [], 0, 0
            group.append(part)
            rows += part.num_rows
            size += part_bytes
    if group:
        yield pa.Table.from_batches(group)


def _divided(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    parts = max(-(-batch.nbytes // most_bytes), -(-batch.num_rows // MOST_ROWS))
    step = max(-(-batch.num_rows // max(parts, 1)), 1)
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)
