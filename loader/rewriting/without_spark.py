"""Rewrites files without Spark if there is little data: the driver joins them itself, hour by hour,
as tasks would, and compares all values afterwards. Also reads the offsets and the columns of a
file. For Parquet only.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from client.producing.delivery import TopicPartition
from loader.decoding.spark_types import columns_of_spark
from loader.decoding.table_columns import are_same, fit, have_same_values, in_columns
from loader.errors import Mismatch, StoreError
from loader.landing.pieces import WrittenFile
from loader.landing.without_spark import opened, write_pieces
from loader.rewriting.groups import Footer, groups_of, new_files_of, verified
from loader.rewriting.joined_rows import join_files
from loader.rewriting.row_format import RowFormat
from loader.store.store import Entry, Store
from loader.values.replaced_rows import PartitionRows, Readable
from loader.values.rewrites import Rewrite, Rewritten

HOUR_BYTES: Final = 4 * 1024 * 1024  # of an hour's files, which take ten times that in memory
ALL_BYTES: Final = 32 * 1024 * 1024  # of a table's files in one load: a second or two


def is_little(rewrites: Sequence[Rewrite]) -> bool:
    """Whether the driver rewrites these files itself."""
    sizes = [rewrite.bytes for rewrite in rewrites]
    return max(sizes, default=0) <= HOUR_BYTES and sum(sizes) <= ALL_BYTES


def rewrite_without_spark(
    store: Store,
    rewrites: Sequence[Rewrite],
    sizes: Mapping[str, int],
    *,
    directory: str,
    target: RowFormat,
) -> tuple[Rewritten, ...]:
    """Does the work of `rewrite_hours`. Raises TooLarge if the data grows too much, StoreError, and
    Mismatch."""
    table = columns_of_spark(target.columns)
    files = {path: opened(store, path) for rewrite in rewrites for path in rewrite.files}
    for path, file in files.items():
        if not fit(file.schema_arrow, table):
            raise Mismatch(f"{store.uri(path)}: its columns do not fit those of the table")
    rows = {path: file.metadata.num_rows for path, file in files.items()}
    groups = groups_of(rewrites, sizes, dict.fromkeys(files, Footer()), ())
    written: list[WrittenFile] = []
    for group in groups:
        inputs = [files[path] for path in group.files]
        hour = group.rewrite.hour
        try:
            pieces = join_files(inputs, group.number, hour, target.compression, table)
            written += write_pieces(store, pieces, f"{directory}/joined")
        except (pa.ArrowException, OSError) as error:
            raise StoreError(f"cannot rewrite {group.files[0]} and others: {error}") from error
    entries = [Entry(file.path, False, file.size, 0) for file in written if not file.report]
    new_files = new_files_of(store, directory, groups, entries, written)
    for group, new_file in zip(groups, new_files, strict=True):
        path = new_file.entry.path
        content = opened(store, path)
        _check_values([files[path] for path in group.files], content, table, path)
        rows[path] = content.metadata.num_rows
    return verified(groups, new_files, rows.__getitem__, target)


def _check_values(
    files: Iterable[pq.ParquetFile], new_file: pq.ParquetFile, table: pa.Schema, path: str
) -> None:
    """Checks that the new file has the columns of the table, and the rows of the files in their
    order. Raises Mismatch."""
    new_rows = _rows(new_file)
    if not are_same(new_rows.schema, table):
        raise Mismatch(f"{path} does not have the columns of the table")
    start = 0
    for file in files:
        rows = in_columns(_rows(file), table)
        part = new_rows.slice(start, rows.num_rows).cast(table)
        if not have_same_values(rows, part):
            raise Mismatch(f"{path} does not have the values of the files that it replaces")
        start += rows.num_rows


def _rows(file: pq.ParquetFile) -> pa.RecordBatch:
    rows = file.read(use_threads=False).combine_chunks()
    return pa.RecordBatch.from_arrays(
        [column.combine_chunks() for column in rows.columns], schema=rows.schema
    )


def partition_rows_in(store: Store, path: str, readable: Readable) -> list[PartitionRows] | None:
    """The rows of each partition in a file; None if it is not a readable Parquet file. Raises
    StoreError."""
    data = store.read(path)
    try:
        file = pq.ParquetFile(pa.BufferReader(data or b""))
        rows = file.read(["_topic", "_partition", "_offset"], use_threads=False)
        grouped_rows = rows.group_by(["_topic", "_partition"], use_threads=False)
        grouped_rows = grouped_rows.aggregate([("_offset", "min"), ("_offset", "count")])
    except (pa.ArrowException, OSError):
        return None
    return [
        PartitionRows(
            path=path,
            partition=(partition := TopicPartition(group["_topic"], group["_partition"])),
            rows=group["_offset_count"],
            lowest=group["_offset_min"],
            gone=group["_offset_count"] - _readable_rows(rows, partition, readable),
        )
        for group in grouped_rows.to_pylist()
    ]


def _readable_rows(rows: pa.Table, partition: TopicPartition, readable: Readable) -> int:
    first, end = readable.get(partition, (0, 0))
    is_readable = (
        (pc.field("_topic") == partition.topic)
        & (pc.field("_partition") == partition.partition)
        & (pc.field("_offset") >= first)
        & (pc.field("_offset") < end)
    )
    return int(rows.filter(is_readable).num_rows)


def columns_in(store: Store, path: str) -> pa.Schema | None:
    """The columns of a file; None if it is not a readable Parquet file. Raises StoreError."""
    try:
        return pq.read_schema(pa.BufferReader(store.read(path) or b""))
    except (pa.ArrowException, OSError):
        return None
