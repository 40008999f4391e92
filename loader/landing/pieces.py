"""What a task gives to Spark: pieces of files, row by row, and which file each belongs to.

Spark's text writer puts the pieces of a file one behind the other, with `PIECE_END` after each. A
piece is bytes, and stands in a column of strings: neither Arrow nor Spark looks at what they are.

Of every slice come: for each hour with rows one file of kind `rows`; one of kind `dead` if there
are dead letters; one report. Spark keeps all files of a task open until it ends, so there are only
so many: the rows of hours beyond that come in one file of kind `mixed`, with the hour of each row
as a last column, which Spark is to divide.

A load of little does without Spark: the driver takes the pieces itself (here.py).
"""

import struct
from enum import StrEnum
from typing import Final

import msgspec
import pyarrow as pa

from loader.reports import SliceReport
from loader.tables import Hour, hour_folder

PIECES: Final = pa.schema(
    [
        pa.field("kind", pa.string()),
        pa.field("slice", pa.int32()),
        pa.field("dt", pa.string()),
        pa.field("hour", pa.string()),
        pa.field("value", pa.string()),
    ]
)
PIECE_END: Final = "PAR1"  # which is also how a Parquet file ends
NO_HOUR: Final = "none"  # in place of day and hour
MOST_HOURS: Final = 200  # of a slice, with files of their own
MOST_FILES: Final = 400  # of rows, that a task keeps open: each is a stream and a thread
HOUR_COLUMN: Final = "_hour"  # of mixed rows: milliseconds

_OFFSETS: Final = struct.Struct("=ii")


class FileKind(StrEnum):
    ROWS = "rows"
    MIXED = "mixed"
    DEAD = "dead"
    REPORT = "report"


def hours_of_each(slices: int) -> int:
    """How many hours have files of their own, of each slice of a task."""
    return min(MOST_HOURS, MOST_FILES // slices)


def piece(kind: FileKind, number: int, hour: Hour | None, value: bytes) -> pa.RecordBatch:
    """One piece of a file of the slice with this number."""
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


def file_of(one: pa.RecordBatch) -> tuple[str, pa.Buffer]:
    """A piece's folder, as Spark calls it, and its bytes."""
    kind, number, day, hour = (one.column(place)[0].as_py() for place in range(4))
    return f"kind={kind}/slice={number}/dt={day}/hour={hour}", one.column(4).buffers()[2]


def report_piece(report: SliceReport) -> pa.RecordBatch:
    return piece(FileKind.REPORT, report.slice, None, msgspec.json.encode(report))
