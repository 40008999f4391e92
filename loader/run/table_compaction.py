"""Compacts a table: joins the small files of complete hours to files near a target size.

The rules of runs that rewrite hours hold (rewrite_runs.py). An hour that is open is left to the run
that closes it, which merges its files. The values of all new files are compared with those of the
old ones, not only their rows counted.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from loader.commit.layout import hour_path
from loader.commit.rewrites import rewrite_of
from loader.run.load_context import Compaction, TableLoad
from loader.run.outcomes import CompactedHour
from loader.run.rewrite_runs import Commit, RewriteRuns, with_forgotten_hours
from loader.run.table_rewriting import has_table_columns
from loader.values.manifests import Manifest
from loader.values.rewrites import Rewrite, RewriteReason
from loader.values.tables import HOUR_MILLIS, Hour


def compact(load: TableLoad, latest: Manifest, compaction: Compaction, commit: Commit) -> str:
    """Compacts all hours that are old enough; only plans it in a dry run. Returns an error message
    if some could not be compacted, or an empty text. Raises LoaderError."""

    def plan(
        manifest: Manifest, hours: Sequence[Hour], sizes: Mapping[str, int]
    ) -> tuple[Sequence[Rewrite], Collection[Hour]]:
        rewrites = [
            rewrite
            for hour in hours
            if (
                rewrite := rewrite_of(
                    hour,
                    manifest.hours[hour].files,
                    sizes,
                    below=compaction.target_bytes,
                    to=compaction.target_bytes,
                )
            )
            is not None
        ]
        return rewrites, [
            rewrite.hour
            for rewrite in rewrites
            if has_table_columns(manifest, rewrite.hour)
            or len(rewrite.files) == len(manifest.hours[rewrite.hour].files)
        ]

    latest, sizes = with_forgotten_hours(load, latest)
    rewrites = list(_rewrites(load, latest, sizes, compaction))
    if load.context.request.dry_run:
        load.outcome.compacted = [
            CompactedHour(rewrite.hour, len(rewrite.files), rewrite.files_wanted, rewrite.bytes)
            for rewrite in rewrites
        ]
        return ""
    runs = RewriteRuns(load, commit, plan, RewriteReason.SMALL_FILES, compares_all=True)
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


def _rewrites(
    load: TableLoad, latest: Manifest, sizes: Mapping[str, int], compaction: Compaction
) -> Iterator[Rewrite]:
    """The rewrites of all hours. `sizes` has all files that readers see."""
    newest_hour = load.context.now() - compaction.older_than - HOUR_MILLIS
    paths_by_folder: dict[str, list[str]] = {}
    for path in sizes:
        paths_by_folder.setdefault(path.rpartition("/")[0], []).append(path)
    for hour, state in sorted(latest.hours.items()):
        if state.complete < 0 or hour > newest_hour:
            continue
        present_paths = paths_by_folder.get(hour_path(load.name, hour), [])
        listed_paths = set(state.files)
        paths = [path for path in present_paths if state.unlisted or path in listed_paths]
        target_bytes = compaction.target_bytes
        rewrite = rewrite_of(hour, paths, sizes, below=target_bytes, to=target_bytes)
        if rewrite is not None:
            yield rewrite
