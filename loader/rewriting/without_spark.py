"""Merges small files without Spark if there is little data: the driver joins them itself, hour by
hour, as tasks would. Also reads the offsets and the columns of a file. For Parquet only.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from client.producing.delivery import TopicPartition
from loader.errors import StoreError
from loader.hours.closing import Merge, Merged
from loader.landing.without_spark import opened, rows_in_file, write_pieces
from loader.rewriting.groups import Footer, Group, entries_of, groups_of, verified
from loader.rewriting.joined_rows import join_files
from loader.rewriting.row_format import RowFormat
from loader.store.store import Store
from loader.values.replaced_rows import PartitionRows, Readable

HOUR_BYTES: Final = 4 * 1024 * 1024  # of an hour's files, which take ten times that in memory
ALL_BYTES: Final = 32 * 1024 * 1024  # of a table's files in one load: a second or two


def is_little(merges: Sequence[Merge]) -> bool:
    """Whether the driver merges these files itself."""
    sizes = [merge.bytes for merge in merges]
    return max(sizes, default=0) <= HOUR_BYTES and sum(sizes) <= ALL_BYTES


def merge_without_spark(
    store: Store,
    merges: Sequence[Merge],
    sizes: Mapping[str, int],
    *,
    directory: str,
    target: RowFormat,
) -> tuple[Merged, ...]:
    """Does the work of `merge_hours`. Raises TooLarge if the data grows too much, and
    StoreError."""
    groups: list[Group] = []
    rows: dict[str, int] = {}
    for merge in merges:
        files = {path: opened(store, path) for path in merge.files}
        rows |= {path: file.metadata.num_rows for path, file in files.items()}
        # The name before the brace depends on the program that wrote the file.
        footers = {path: Footer(str(file.schema).partition("{")[2]) for path, file in files.items()}
        for group in groups_of([merge], sizes, footers, first=len(groups)):
            inputs = [files[path] for path in group.files]
            try:
                pieces = join_files(inputs, group.number, merge.hour, target.compression)
                write_pieces(store, pieces, f"{directory}/joined")
            except (pa.ArrowException, OSError) as error:
                raise StoreError(f"cannot merge {group.files[0]} and others: {error}") from error
            groups.append(group)
    entries = entries_of(store, directory, groups)
    rows |= {entry.path: rows_in_file(store, entry.path) for entry in entries}
    return verified(groups, entries, rows.__getitem__, target)


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


def columns_in(store: Store, path: str) -> frozenset[str] | None:
    """The columns of a file; None if it is not a readable Parquet file. Raises StoreError."""
    try:
        return frozenset(pq.read_schema(pa.BufferReader(store.read(path) or b"")).names)
    except (pa.ArrowException, OSError):
        return None
