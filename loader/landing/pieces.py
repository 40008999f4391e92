"""The output of a task: pieces of files, as rows that name the file.

Spark's text writer concatenates the pieces of a file, with `PIECE_END` after each. A piece is
binary, in a column of strings: neither Arrow nor Spark interprets it.

A slice produces, for each hour with rows, a file of kind `rows`; one of kind `dead` if there are
dead letters; and one report. Spark keeps all files of a task open until it ends, so their number is
limited: rows of further hours go to one file of kind `mixed`, with the hour of each row in the last
column, which Spark then divides.

Without Spark, the driver takes the pieces itself (without_spark.py).
"""

import struct
from enum import StrEnum
from typing import Final

import msgspec
import pyarrow as pa

from loader.values.reports import SliceReport
from loader.values.tables import Hour, hour_folder

PIECES: Final = pa.schema(
    [
        pa.field("kind", pa.string()),
        pa.field("slice", pa.int32()),
        pa.field("dt", pa.string()),
        pa.field("hour", pa.string()),
        pa.field("value", pa.string()),
    ]
)
PIECE_END: Final = "PAR1"  # also the end of a Parquet file
NO_HOUR: Final = "none"  # in place of day and hour
MOST_HOURS: Final = 200  # hours of a slice with files of their own
MOST_FILES: Final = 400  # row files that a task keeps open: each is a stream and a thread
HOUR_COLUMN: Final = "_hour"  # of mixed rows: milliseconds

_OFFSETS: Final = struct.Struct("=ii")


class FileKind(StrEnum):
    ROWS = "rows"
    MIXED = "mixed"
    DEAD = "dead"
    REPORT = "report"


class WrittenFile(msgspec.Struct, frozen=True):
    """A file that the driver staged itself, or a report, which it keeps instead."""

    path: str
    size: int
    report: bytes = b""  # the content of a report


def hours_of_each(slices: int) -> int:
    """The number of hours that have files of their own, for each slice of a task."""
    return min(MOST_HOURS, MOST_FILES // slices)


def piece(kind: FileKind, number: int, hour: Hour | None, value: bytes) -> pa.RecordBatch:
    """Returns a row with one piece of a file of the slice with this number."""
    day, name = NO_HOUR, NO_HOUR
    if hour is not None:
        day, name = (part.partition("=")[2] for part in hour_folder(hour).split("/"))
    offsets = pa.py_buffer(_OFFSETS.pack(0, len(value)))
    text = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(value))
    return pa.RecordBatch.from_arrays(
        [
            pa.array([kind.value], pa.string()),
            pa.array([number], pa.int32()),
            pa.array([day], pa.string()),
            pa.array([name], pa.string()),
            text,
        ],
        schema=PIECES,
    )


def file_of(record: pa.RecordBatch) -> tuple[str, pa.Buffer]:
    """The folder of a piece, as Spark names it, and its bytes."""
    kind, number, day, hour = (record.column(index)[0].as_py() for index in range(4))
    return f"kind={kind}/slice={number}/dt={day}/hour={hour}", record.column(4).buffers()[2]


def report_piece(report: SliceReport) -> pa.RecordBatch:
    return piece(FileKind.REPORT, report.slice, None, msgspec.json.encode(report))
