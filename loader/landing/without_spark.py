"""Loads few records without Spark: the driver itself reads the slices, one after the other, and
stages the same files as tasks would, except reports, which it need not read back.

Planning a Spark job takes longer than reading some ten thousand records, and starting Spark takes
seconds; most topics have no more in most nights. The number of records is known in advance, their
size is not: if files become too large for memory, the attempt is abandoned and a Spark job starts
over.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from client.connection.brokers import Brokers
from loader.errors import StoreError
from loader.landing.pieces import MOST_HOURS, PIECE_END, FileKind, WrittenFile, file_of
from loader.landing.task import landed
from loader.landing.task_spec import LandingJob
from loader.landing.writer_schemas import WriterSchemas
from loader.store.store import Store

AS_RECORDS: Final = 1_000  # the cost of starting a slice, as a number of records
MEMORY_BYTES: Final = 16 * 1024 * 1024  # for held rows, and for one slice's files
_END: Final = PIECE_END.encode()
FILE: Final = "here.c000.txt"  # the name of each file, in a folder of its own


class TooLarge(Exception):
    """The error for records that are few but large."""


def is_little(job: LandingJob, records: int) -> bool:
    """Whether the job reads at most `records` records."""
    return sum(piece.end - piece.first + AS_RECORDS for piece in job.slices) <= records


def is_local(path: str) -> bool:
    return path.endswith(f"/{FILE}")


def land_locally(
    store: Store, job: LandingJob, directory: str, brokers: Brokers, done: Callable[[int], None]
) -> list[WrittenFile]:
    """Reads all slices, stages their files in the directory, and returns these with the reports.
    `done` receives the number of finished slices after each slice, and may raise an error to stop.
    Raises TooLarge, and the errors of tasks."""
    written: list[WrittenFile] = []
    spec = msgspec.structs.replace(job.spec, memory_bytes=min(job.spec.memory_bytes, MEMORY_BYTES))
    with WriterSchemas(spec) as schemas:
        for finished_count, piece in enumerate(job.slices, 1):
            seen_events = job.seen_in(piece)
            pieces = landed(piece, spec, seen_events, brokers, schemas, most_hours=MOST_HOURS)
            written += write_pieces(store, pieces, directory)
            done(finished_count)
    return written


def write_pieces(
    store: Store, pieces: Iterable[pa.RecordBatch], directory: str
) -> list[WrittenFile]:
    """Writes the files of these pieces as Spark would, except reports. Raises TooLarge before
    writing any."""
    files: dict[str, list[bytes | pa.Buffer]] = defaultdict(list)
    size = 0
    for piece in pieces:
        folder, value = file_of(piece)
        size += value.size
        if size > MEMORY_BYTES:
            raise TooLarge
        files[folder] += (value, _END)
    written = []
    for folder, parts in files.items():
        path, data = f"{directory}/{folder}/{FILE}", b"".join(parts)
        is_report = folder.startswith(f"kind={FileKind.REPORT}/")
        if not is_report:
            store.write(path, data)
        written.append(WrittenFile(path, len(data), data if is_report else b""))
    return written


def rows_in_file(store: Store, path: str) -> int:
    """The number of rows of a staged Parquet file. Raises StoreError."""
    return int(opened(store, path).metadata.num_rows)


def opened(store: Store, path: str) -> pq.ParquetFile:
    """The Parquet file, read into memory. Raises StoreError."""
    data = store.read(path)
    if data is None:
        raise StoreError(f"{store.uri(path)} does not exist")
    try:
        return pq.ParquetFile(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"{store.uri(path)} is not a Parquet file: {error}") from error
