"""Rewrites files of one table's hours: stages the new files, by the driver if there is little data,
by Spark otherwise. They count for nothing until a manifest names them.
"""

from collections.abc import Iterable, Mapping, Sequence

from loader.config import FileFormat
from loader.landing.without_spark import TooLarge
from loader.rewriting.row_format import RowFormat
from loader.rewriting.without_spark import is_little, rewrite_without_spark
from loader.run.landed_files import of_other_columns
from loader.run.load_context import TableLoad
from loader.values.manifests import Manifest
from loader.values.rewrites import Rewrite, Rewritten
from loader.values.tables import Hour


def target_of(load: TableLoad, latest: Manifest) -> RowFormat:
    """The form of new files."""
    config = load.context.config
    return RowFormat(config.format, config.compression, latest.schema)


def has_table_columns(latest: Manifest, hour: Hour) -> bool:
    """Whether all files of the hour are known to have the table's columns."""
    state = latest.hours[hour]
    has_files = bool(state.files or state.unlisted)
    return not has_files or 0 < state.schema_number == latest.schema_number


def other_files(load: TableLoad, latest: Manifest, hours: Iterable[Hour]) -> dict[Hour, list[str]]:
    """The files of these hours that do not have the table's columns. Reads all their footers. The
    manifest must list the files. Raises LoaderError."""
    others: dict[Hour, list[str]] = {hour: [] for hour in hours}
    hour_by_path = {path: hour for hour in others for path in latest.hours[hour].files}
    for path in of_other_columns(load, list(hour_by_path), target_of(load, latest)):
        others[hour_by_path[path]].append(path)
    return others


def rewrite_files(
    load: TableLoad,
    latest: Manifest,
    rewrites: Sequence[Rewrite],
    sizes: Mapping[str, int],
    folder: str,
    *,
    compares_all: bool = False,
) -> tuple[Rewritten, ...]:
    """Stages the new files in a run's folder, verified. `sizes` are by path. With `compares_all`,
    Spark compares the values of all files, and not only of those that are converted. Raises
    LoaderError."""
    if not rewrites:
        return ()
    load.check_stopped()
    context, target = load.context, target_of(load, latest)
    if (rewritten := _without_spark(load, rewrites, sizes, folder, target)) is not None:
        return rewritten
    return context.spark.rewrite_hours(
        f"{load.name}: rewriting",
        context.store,
        rewrites,
        sizes,
        directory=f"{folder}/merged",
        target=target,
        compares_all=compares_all,
    )


def _without_spark(
    load: TableLoad,
    rewrites: Sequence[Rewrite],
    sizes: Mapping[str, int],
    folder: str,
    target: RowFormat,
) -> tuple[Rewritten, ...] | None:
    """Rewrites without Spark. None if there is too much data; partial results are deleted with the
    folder."""
    context = load.context
    is_small = target.format is FileFormat.PARQUET and is_little(rewrites)
    if not is_small or not context.config.tasks.without_spark:
        return None
    try:
        return rewrite_without_spark(
            context.store, rewrites, sizes, directory=f"{folder}/here", target=target
        )
    except TooLarge:
        return None
