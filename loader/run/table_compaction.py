"""Joins small files of a table: of complete hours on request, of open hours in a load.

The rules of runs that rewrite hours hold (rewrite_runs.py). The values of all new files are
compared with those of the old ones, not only their rows counted.

Rule 1: a request leaves open hours to the run that closes them, which merges their files.
Rule 2: an hour that has ended may stay open for days, and gets files with each load. A load merges
        its small files when they are more than configured, and makes one such run, which has the
        bounds of all runs that rewrite hours.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

from loader.commit.layout import hour_path
from loader.commit.rewrites import rewrite_of
from loader.config import CompletenessConfig
from loader.hours.closing import open_hours
from loader.run.load_context import Compaction, TableLoad
from loader.run.outcomes import CompactedHour
from loader.run.rewrite_runs import Commit, RewriteRuns, parts, with_forgotten_hours
from loader.run.table_rewriting import has_table_columns
from loader.values.manifests import HourState, Manifest
from loader.values.rewrites import Rewrite, RewriteReason
from loader.values.tables import HOUR_MILLIS, Hour

# Returns the rewrite of these files of an hour, whose sizes are by path, if they are to be joined.
Join = Callable[[Hour, Collection[str], Mapping[str, int]], Rewrite | None]


def compact(load: TableLoad, latest: Manifest, compaction: Compaction, commit: Commit) -> str:
    """Compacts all hours that are old enough; only plans it in a dry run. Returns an error message
    if some could not be compacted, or an empty text. Raises LoaderError."""
    latest, sizes = with_forgotten_hours(load, latest)
    target_bytes = compaction.target_bytes
    join = partial(rewrite_of, below=target_bytes, to=target_bytes)
    rewrites = list(_rewrites(load, latest, sizes, compaction, join))
    if load.context.request.dry_run:
        load.outcome.compacted = [
            CompactedHour(rewrite.hour, len(rewrite.files), rewrite.files_wanted, rewrite.bytes)
            for rewrite in rewrites
        ]
        return ""
    runs = _runs(load, commit, join)
    try:
        runs.run(latest, [rewrite.hour for rewrite in rewrites])
    finally:
        load.outcome.compacted = [
            CompactedHour(
                part.rewrite.hour,
                len(part.rewrite.files),
                len(part.files),
                part.rewrite.bytes,
                sum(file.bytes for file in part.files),
            )
            for part in runs.rewritten
        ]
    return f"not all hours were compacted: {runs.failure}" if runs.failure else ""


def merge_open_hours(load: TableLoad, latest: Manifest, commit: Commit) -> None:
    """Merges the small files of open hours that have many, and warns about hours where that failed.
    Raises LoaderError."""
    config = load.context.config.completeness
    hours = list(_with_many_files(load, latest, config))
    runs = _runs(load, commit, partial(_many_joined, config))
    try:
        for part in parts(latest, hours):
            latest = runs.run(latest, part)
            if runs.rewritten:  # otherwise all failed, and must not hold up those that follow
                break
    finally:
        load.outcome.merged_files += sum(len(part.rewrite.files) for part in runs.rewritten)
    if runs.failure:
        load.warn(f"small files of open hours were not merged: {runs.failure}")


def _runs(load: TableLoad, commit: Commit, join: Join) -> RewriteRuns:
    plan = partial(_plan, join)
    return RewriteRuns(load, commit, plan, RewriteReason.SMALL_FILES, compares_all=True)


def _plan(
    join: Join, latest: Manifest, hours: Sequence[Hour], sizes: Mapping[str, int]
) -> tuple[Sequence[Rewrite], Collection[Hour]]:
    """The rewrites of these hours, and those of the hours whose files then all have the table's
    columns."""
    rewrites = [
        rewrite
        for hour in hours
        if (rewrite := join(hour, latest.hours[hour].files, sizes)) is not None
    ]
    return rewrites, [
        rewrite.hour
        for rewrite in rewrites
        if has_table_columns(latest, rewrite.hour)
        or len(rewrite.files) == len(latest.hours[rewrite.hour].files)
    ]


def _rewrites(
    load: TableLoad, latest: Manifest, sizes: Mapping[str, int], compaction: Compaction, join: Join
) -> Iterator[Rewrite]:
    """The rewrites of complete hours. `sizes` has all files that readers see."""
    newest_hour = load.context.now() - compaction.older_than - HOUR_MILLIS
    paths_by_folder: dict[str, list[str]] = {}
    for path in sizes:
        paths_by_folder.setdefault(path.rpartition("/")[0], []).append(path)
    for hour, state in sorted(latest.hours.items()):
        if state.complete < 0 or hour > newest_hour:
            continue
        present_paths = paths_by_folder.get(hour_path(load.name, hour), [])
        rewrite = join(hour, _own_paths(state, present_paths), sizes)
        if rewrite is not None:
            yield rewrite


def _with_many_files(
    load: TableLoad, latest: Manifest, config: CompletenessConfig
) -> Iterator[Hour]:
    """The open hours that have ended and have more small files than configured. Lists only the
    folders of hours with more files than that."""
    if not config.merge_open_above:
        return
    for hour in open_hours(latest, load.context.now()):
        state = latest.hours.get(hour)
        if state is None or len(state.files) + state.unlisted <= config.merge_open_above:
            continue
        sizes = {
            entry.path: entry.size
            for entry in load.context.store.list(hour_path(load.name, hour))
            if not entry.is_folder and not entry.name.startswith(("_", "."))
        }
        if _many_joined(config, hour, _own_paths(state, sizes), sizes) is not None:
            yield hour


def _own_paths(state: HourState, present: Collection[str]) -> list[str]:
    """Those of the present files that are the hour's own, as far as that is known."""
    listed_paths = set(state.files)
    return [path for path in present if state.unlisted or path in listed_paths]


def _many_joined(
    config: CompletenessConfig, hour: Hour, paths: Collection[str], sizes: Mapping[str, int]
) -> Rewrite | None:
    """The rewrite of an open hour's small files, if they are more than configured."""
    target_bytes = max(config.merge_to, 2 * config.merge_below)  # not small files again
    rewrite = rewrite_of(hour, paths, sizes, below=config.merge_below, to=target_bytes)
    is_due = rewrite is not None and len(rewrite.files) > config.merge_open_above
    return rewrite if is_due else None
