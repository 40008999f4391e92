"""Upgrades a table to one schema: rewrites hours whose files do not have the table's columns.

Which columns an hour has is noted in the manifest, so that an hour is looked at once. Hours that
the manifest has forgotten are looked at by each upgrade on request.

Rule 1: what holds of each run that rewrites hours (rewrite_runs.py). An hour that a rebuild mends
        gets the table's columns as well.
Rule 2: without a request, a load upgrades complete hours if they are few, and known to have columns
        of a former schema of the table.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from loader.commit.rewrites import rewrite_of
from loader.errors import load_command
from loader.run.load_context import TableLoad
from loader.run.rewrite_runs import Commit, RewriteRuns, with_forgotten_hours
from loader.run.table_rewriting import has_table_columns, other_files
from loader.values.manifests import Manifest
from loader.values.rewrites import Rewrite, RewriteReason
from loader.values.tables import Hour

FEW_HOURS: Final = 48  # that a load upgrades without a request


def upgrade_on_request(load: TableLoad, latest: Manifest, commit: Commit) -> str:
    """Upgrades all hours. Returns an error message if some could not be upgraded, or an empty text.
    Raises LoaderError."""
    latest, _ = with_forgotten_hours(load, latest)
    _, runs = _upgrade(load, latest, _of_former_schemas(latest), commit)
    return f"not all hours were upgraded: {runs.failure}" if runs.failure else ""


def upgrade_few(
    load: TableLoad, before: Manifest | None, latest: Manifest, commit: Commit
) -> Manifest:
    """Upgrades complete hours of former schemas if they are few and small, and returns the newest
    manifest. If there are more, the load that has changed the table's columns since the manifest
    `before` warns. Raises LoaderError."""
    newest = latest
    hours = _of_former_schemas(latest)
    known_hours = [
        hour
        for hour in hours
        if latest.hours[hour].complete >= 0 and latest.hours[hour].schema_number > 0
    ]
    size = sum(latest.hours[hour].bytes for hour in known_hours)
    if len(known_hours) <= FEW_HOURS and size <= load.context.config.upgrade_bytes:
        newest, runs = _upgrade(load, latest, known_hours, commit)
        for failure in runs.failures:
            load.warn(failure)
        hours = [hour for hour in hours if hour not in known_hours]
    complete_hours = [hour for hour in hours if latest.hours[hour].complete >= 0]
    if complete_hours and before is not None and _has_changed(before, latest):
        command = load_command(load.name, load.context.request.config_options)
        load.warn(
            f"{len(complete_hours):,} complete hours may have the columns of a former schema, which"
            f" not every reader accepts; to rewrite them: {command} --upgrade-schema"
        )
    return newest


def _has_changed(before: Manifest, latest: Manifest) -> bool:
    """Whether the table's columns have changed, and not only the order, or whether manifests number
    them."""
    return before.schema_number != latest.schema_number and before.schema != latest.schema


def _of_former_schemas(latest: Manifest) -> list[Hour]:
    return [hour for hour in sorted(latest.hours) if not has_table_columns(latest, hour)]


def _upgrade(
    load: TableLoad, latest: Manifest, hours: Iterable[Hour], commit: Commit
) -> tuple[Manifest, RewriteRuns]:
    runs = RewriteRuns(load, commit, partial(_plan, load), RewriteReason.COLUMNS)
    try:
        newest = runs.run(latest, hours)
    finally:
        load.outcome.upgraded += [part.rewrite.hour for part in runs.rewritten]
        load.outcome.upgraded_files += sum(len(part.rewrite.files) for part in runs.rewritten)
    return newest, runs


def _plan(
    load: TableLoad, latest: Manifest, hours: Sequence[Hour], sizes: Mapping[str, int]
) -> tuple[Sequence[Rewrite], Collection[Hour]]:
    """The rewrites of files that do not have the table's columns."""
    others = other_files(load, latest, hours)
    target_bytes = load.context.config.completeness.merge_to
    rewrites = (
        rewrite_of(
            hour,
            latest.hours[hour].files,
            sizes,
            below=0,
            to=target_bytes,
            others=others[hour],
        )
        for hour in hours
    )
    return [rewrite for rewrite in rewrites if rewrite is not None], hours
