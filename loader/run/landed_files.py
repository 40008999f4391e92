"""Reads row counts, lowest offsets and columns of landed files during a load.

The driver reads few and small Parquet files itself, so that a small rebuild, or a load that finds a
damaged file, does not start Spark. Spark reads all others.
"""

from collections.abc import Sequence, Set
from typing import Final

from client.producing.delivery import TopicPartition
from loader.config import FileFormat
from loader.errors import SparkFailed
from loader.landing.without_spark import rows_in_file
from loader.rewriting.without_spark import ALL_BYTES, columns_in, lowest_offsets_in
from loader.run.load_context import LoadContext, TableLoad

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


def lowest_offsets(load: TableLoad, paths: Sequence[str]) -> dict[TopicPartition, int]:
    """The lowest offset of each partition with rows in these files. Warns about files that cannot
    be read, and leaves them out, since a rebuild repairs them. Raises LoaderError."""
    if not paths:
        return {}
    load.doing("reading offsets of replaced files")
    if not _is_little(load.context, paths):
        return _by_spark(load, paths)
    lowest_by_partition: dict[TopicPartition, int] = {}
    for path in paths:
        offsets = lowest_offsets_in(load.context.store, path)
        if offsets is None:
            _warn(load, path)
        else:
            _lower(lowest_by_partition, offsets)
    return lowest_by_partition


def lacking_columns(load: TableLoad, paths: Sequence[str], columns: Set[str]) -> set[str]:
    """The columns that at least one of these files lacks. Large files are not examined."""
    if not columns or not _is_little(load.context, paths):
        return set()
    present_columns = (columns_in(load.context.store, path) for path in paths)
    return {name for names in present_columns if names is not None for name in columns - names}


def _by_spark(load: TableLoad, paths: Sequence[str]) -> dict[TopicPartition, int]:
    """Bisects files that cannot all be read."""
    context = load.context
    try:
        return context.spark.lowest_offsets(
            f"{load.name}: reading offsets of replaced files",
            [context.store.uri(path) for path in paths],
            context.config.format,
        )
    except SparkFailed as error:
        if _UNREADABLE not in str(error):
            raise
    if len(paths) == 1:
        _warn(load, paths[0])
        return {}
    middle = len(paths) // 2
    lowest_by_partition = _by_spark(load, paths[:middle])
    _lower(lowest_by_partition, _by_spark(load, paths[middle:]))
    return lowest_by_partition


def _lower(lowest: dict[TopicPartition, int], offsets: dict[TopicPartition, int]) -> None:
    for partition, offset in offsets.items():
        lowest[partition] = min(offset, lowest.get(partition, offset))


def _warn(load: TableLoad, path: str) -> None:
    load.warn(f"{path} is unreadable; only the hour's number of rows shows whether the log has all")


def _is_little(context: LoadContext, paths: Sequence[str]) -> bool:
    if context.config.format is not FileFormat.PARQUET or not context.config.tasks.without_spark:
        return False
    return sum(context.store.size(path) or 0 for path in paths) <= ALL_BYTES
