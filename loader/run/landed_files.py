"""Reads row counts, offsets and columns of landed files during a load.

The driver reads few and small Parquet files itself, so that a small rebuild, or a load that finds a
damaged file, does not start Spark. Spark reads all others.
"""

from collections.abc import Sequence, Set
from typing import Final

import msgspec

from loader.config import FileFormat
from loader.decoding.spark_types import columns_of_spark
from loader.decoding.table_columns import are_same
from loader.errors import SparkFailed
from loader.landing.without_spark import rows_in_file
from loader.rewriting.row_format import RowFormat
from loader.rewriting.without_spark import ALL_BYTES, columns_in, partition_rows_in
from loader.run.load_context import LoadContext, TableLoad
from loader.values.replaced_rows import PartitionRows, Readable

_UNREADABLE: Final = "[FAILED_READ_FILE"  # begins Spark's errors about one file's content


def count_rows(context: LoadContext, on: str, paths: Sequence[str]) -> dict[str, int]:
    """The row counts of files of the configured format, by path. Raises LoaderError."""
    if not paths:
        return {}
    store = context.store
    if _is_little(context, paths):
        return {path: rows_in_file(store, path) for path in paths}
    uris = {path: store.uri(path) for path in paths}
    rows = context.spark.count_rows(on, list(uris.values()), context.config.format)
    return {path: rows[uri] for path, uri in uris.items()}


def partition_rows(
    load: TableLoad, paths: Sequence[str], readable: Readable
) -> list[PartitionRows]:
    """The rows of each partition in each of these files. Warns about files that cannot be read, and
    leaves them out, since a rebuild repairs them. Raises LoaderError."""
    if not paths:
        return []
    load.doing("reading offsets of replaced files")
    store = load.context.store
    if not _is_little(load.context, paths):
        paths_by_uri = {store.uri(path): path for path in paths}
        return [
            msgspec.structs.replace(part, path=paths_by_uri[part.path])
            for part in _by_spark(load, list(paths_by_uri), readable)
        ]
    rows: list[PartitionRows] = []
    for path in paths:
        parts = partition_rows_in(store, path, readable)
        if parts is None:
            _warn(load, store.uri(path))
        rows += parts or ()
    return rows


def lacking_columns(load: TableLoad, paths: Sequence[str], columns: Set[str]) -> set[str]:
    """The columns that at least one of these files lacks. Large files are not examined."""
    if not columns or not _is_little(load.context, paths):
        return set()
    present_columns = (columns_in(load.context.store, path) for path in paths)
    return {
        name
        for schema in present_columns
        if schema is not None
        for name in columns - {*schema.names}
    }


def of_other_columns(load: TableLoad, paths: Sequence[str], target: RowFormat) -> list[str]:
    """Those of the files that do not have the columns of the table. Raises LoaderError."""
    if not paths or target.format is FileFormat.JSON:  # lines have no columns
        return []
    context, store = load.context, load.context.store
    if not _is_little(context, paths):
        on = f"{load.name}: reading columns"
        return context.spark.of_other_columns(on, store, paths, target)
    table = columns_of_spark(target.columns)
    return [
        path
        for path in paths
        if (columns := columns_in(store, path)) is None or not are_same(columns, table)
    ]


def _by_spark(load: TableLoad, uris: Sequence[str], readable: Readable) -> list[PartitionRows]:
    """Bisects files that cannot all be read."""
    on = f"{load.name}: reading offsets of replaced files"
    try:
        return load.context.spark.partition_rows(on, uris, load.context.config.format, readable)
    except SparkFailed as error:
        if _UNREADABLE not in str(error):
            raise
    if len(uris) == 1:
        _warn(load, uris[0])
        return []
    middle = len(uris) // 2
    return _by_spark(load, uris[:middle], readable) + _by_spark(load, uris[middle:], readable)


def _warn(load: TableLoad, uri: str) -> None:
    load.warn(f"{uri} is unreadable; only the hour's number of rows shows whether the log has all")


def _is_little(context: LoadContext, paths: Sequence[str]) -> bool:
    if context.config.format is not FileFormat.PARQUET or not context.config.tasks.without_spark:
        return False
    return sum(context.store.size(path) or 0 for path in paths) <= ALL_BYTES
