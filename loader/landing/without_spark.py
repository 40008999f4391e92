"""A load of little, without Spark: the driver reads the slices itself, one after the other, and
leaves what tasks would leave, in the same folders.

To plan a job of Spark's takes longer than to read some ten thousand records, and to start Spark
takes seconds; most topics of most nights have no more. How many records there are is known before,
how large they are is not: files that become too large to be held are given up, and a job of Spark's
begins anew.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from client.brokers import Brokers
from loader.errors import StoreError
from loader.landing.pieces import MOST_HOURS, PIECE_END, file_of
from loader.landing.task import landed
from loader.landing.task_spec import LandingJob
from loader.landing.writer_schemas import WriterSchemas
from loader.store.store import Store

AS_RECORDS: Final = 1_000  # that take as long as to begin with a slice
MEMORY_BYTES: Final = 16 * 1024 * 1024  # of rows that are held back; and of one slice's files
_END: Final = PIECE_END.encode()
FILE: Final = "here.c000.txt"  # each of them, in a folder of its own


class TooLarge(Exception):
    """There are few records, and they are large."""


def is_little(job: LandingJob, records: int) -> bool:
    """Whether no more than so many records are to be read."""
    return sum(each.end - each.first + AS_RECORDS for each in job.slices) <= records


def is_without_spark(path: str) -> bool:
    """Whether a staged file was left by `land_without_spark`."""
    return path.endswith(f"/{FILE}")


def land_without_spark(
    store: Store, job: LandingJob, directory: str, brokers: Brokers, done: Callable[[int], None]
) -> None:
    """Reads all slices, and stages their files in the directory. `done` hears how many are done
    after each, and may raise what ends this. Raises TooLarge, and what tasks raise."""
    spec = msgspec.structs.replace(job.spec, memory_bytes=min(job.spec.memory_bytes, MEMORY_BYTES))
    with WriterSchemas(spec) as schemas:
        for number, piece in enumerate(job.slices, 1):
            seen = job.seen_in(piece)
            pieces = landed(piece, spec, seen, brokers, schemas, most_hours=MOST_HOURS)
            write_pieces(store, pieces, directory)
            done(number)


def write_pieces(store: Store, pieces: Iterable[pa.RecordBatch], directory: str) -> None:
    """The files that consist of them, as Spark would write these. Raises TooLarge before any is
    written."""
    files: dict[str, list[bytes | pa.Buffer]] = defaultdict(list)
    size = 0
    for each in pieces:
        folder, value = file_of(each)
        size += value.size
        if size > MEMORY_BYTES:
            raise TooLarge
        files[folder] += (value, _END)
    for folder, parts in files.items():
        store.write(f"{directory}/{folder}/{FILE}", b"".join(parts))


def rows_in_file(store: Store, path: str) -> int:
    """Of a Parquet file that was staged here, as the store gives it back. Raises StoreError."""
    return int(opened(store, path).metadata.num_rows)


def opened(store: Store, path: str) -> pq.ParquetFile:
    """As a whole in memory. Raises StoreError."""
    data = store.read(path)
    if data is None:
        raise StoreError(f"{store.uri(path)} is not there")
    try:
        return pq.ParquetFile(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"{store.uri(path)} is no file of Parquet: {error}") from error
