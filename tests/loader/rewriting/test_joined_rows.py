"""Parquet files as one, natively: what a task gives, put together as Spark would."""

import io
from collections import defaultdict
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loader.config import FileCompression
from loader.landing.pieces import PIECE_END
from loader.rewriting.joined_rows import joined
from tests.loader.rewriting.row_files import SCHEMA, row

HOUR = 3_600_000


def _file(rows: pa.Table, row_group_size: int = 1000) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink, row_group_size=row_group_size)
    return sink.getvalue()


def _given(files: Iterable[tuple[int, bytes]]) -> Iterable[pa.RecordBatch]:
    for number, content in files:
        yield pa.RecordBatch.from_pydict(
            {
                "number": pa.array([number], pa.int32()),
                "hour": pa.array([number * HOUR], pa.int64()),
                "content": pa.array([content], pa.binary()),
            }
        )


def _files(pieces: Iterable[pa.RecordBatch]) -> dict[tuple[int, str], pa.Table]:
    """By number and hour."""
    found: defaultdict[tuple[int, str], bytes] = defaultdict(bytes)
    for piece in pieces:
        value = piece.column("value")[0].as_buffer().to_pybytes()
        key = piece.column("slice")[0].as_py(), piece.column("hour")[0].as_py()
        found[key] += value + PIECE_END.encode()
    return {key: pq.read_table(io.BytesIO(data)) for key, data in found.items()}


def test_files_of_one_number_become_one() -> None:
    tables = [
        pa.Table.from_pylist([row(at) for at in range(first, first + 50)], SCHEMA)
        for first in (0, 50, 100)
    ]
    contents = [_file(each, 7) for each in tables]

    pieces = joined(_given(zip((3, 3, 4), contents, strict=True)), FileCompression.ZSTD)
    found = _files(pieces)

    assert set(found) == {(3, "03"), (4, "04")}
    assert found[3, "03"].to_pylist() == [row(at) for at in range(100)]
    assert found[4, "04"].to_pylist() == [row(at) for at in range(100, 150)]
    assert found[3, "03"].schema.field("at").type == pa.timestamp("us", tz="UTC")


@pytest.mark.not_quick("very many rows")
def test_many_small_row_groups_become_few_large_ones() -> None:
    numbers = pa.table({"_offset": pa.array(range(100_000), pa.int64())})
    (content, again) = (_file(numbers, 100), _file(numbers, 100))

    pieces = list(joined(_given([(0, content), (0, again)]), FileCompression.NONE))

    data = b"".join(
        each.column("value")[0].as_buffer().to_pybytes() + PIECE_END.encode() for each in pieces
    )
    assert pq.ParquetFile(io.BytesIO(data)).num_row_groups == 1


def test_what_is_held_is_bounded() -> None:
    numbers = pa.table({"_offset": pa.array(range(100_000), pa.int64())})

    files = _given([(0, _file(numbers, 5000))])
    pieces = list(joined(files, FileCompression.NONE, held_bytes=80_000))

    assert len(pieces) == 11  # ten row groups, and the footer


def test_no_files_are_no_pieces() -> None:
    assert list(joined([], FileCompression.ZSTD)) == []
