"""One Parquet file, given away piece by piece while it is written.

A piece is a row group, the last one ends with the footer. Behind each piece Spark will put
PIECE_END; the writer is told so, by writing the same there, and so knows at which position in the
file the next row group begins. Nobody reads these bytes: a footer says where columns lie.
"""

from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from loader.landing.pieces import PIECE_END

_END: Final = PIECE_END.encode()


class _Sink:
    """What the writer has written and nobody has taken. A file, as far as pyarrow asks for one."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(data)
        return len(data)

    def flush(self) -> None:
        """There is nowhere to flush to."""

    def close(self) -> None:
        self.closed = True

    def take(self) -> bytes:
        taken, self._parts = b"".join(self._parts), []
        return taken


class ParquetStream:
    """Gives pieces; what it gave is no longer its business."""

    def __init__(self, schema: pa.Schema, settings: dict[str, Any]) -> None:
        self._sink = _Sink()
        self._file = pa.PythonFile(self._sink, mode="w")
        self._writer = pq.ParquetWriter(self._file, schema, **settings)

    def row_group(self, rows: pa.Table) -> bytes:
        """A piece with these rows."""
        self._write(rows)
        piece = self._sink.take()
        self._file.write(_END)
        self._sink.take()
        return piece

    def end(self, rows: pa.Table | None = None) -> bytes:
        """The last piece, with these rows if there are any left."""
        if rows is not None:
            self._write(rows)
        self._writer.close()
        piece = self._sink.take()
        assert piece.endswith(_END)
        return piece[: -len(_END)]

    def _write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows, row_group_size=max(rows.num_rows, 1))
