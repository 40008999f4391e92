"""Upgrades a table to one schema: rewrites hours whose files do not have the table's columns.

Each run rewrites a few hours, and commits them at once: after a kill, the next upgrade continues
with the hours that are left. Which columns an hour has is noted in the manifest, so that an hour is
looked at once. Hours that the manifest has forgotten are looked at by each upgrade on request.

Rule 1: an hour with a file that is missing, or not as committed, is left alone. A rebuild mends it,
        and gives it the table's columns as well.
Rule 2: without a request, a load upgrades complete hours if they are few, and known to have columns
        of a former schema of the table.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from loader.checks.file_check import listed as listed_files
from loader.commit.commit_log import Attempt
from loader.commit.layout import hour_path, run_folder
from loader.commit.next_state import next_run
from loader.commit.old_hours import listed, may_be_forgotten, recalled
from loader.commit.rewrites import rewrite_manifest, rewrite_of
from loader.errors import Interrupted, LoaderError, RunTaken, StoreError, load_command
from loader.run.load_context import TableLoad
from loader.run.table_check import TableCheck
from loader.run.table_rewriting import has_table_columns, other_files, rewrite_files
from loader.values.manifests import HourState, Manifest
from loader.values.rewrites import RewriteReason
from loader.values.tables import Hour

MOST_HOURS: Final = 24  # that one run rewrites
MOST_BYTES: Final = 4 * 1024 * 1024 * 1024  # of their files, but at least one hour
FEW_HOURS: Final = 48  # that a load upgrades without a request

# Commits the first manifest, which follows the second.
Commit = Callable[[Manifest, Manifest | None, Attempt], Manifest]


def upgrade_on_request(load: TableLoad, latest: Manifest, commit: Commit) -> None:
    """Upgrades all hours. Raises LoaderError, after all others, if an hour cannot be upgraded."""
    context, now = load.context, load.context.now()
    load.doing("listing hours")
    folders = listed_files(context.store, load.name, None).files
    forgotten_hours = {
        hour for hour in folders if hour not in latest.hours and may_be_forgotten(hour, now)
    }
    latest = recalled(context.store, latest, forgotten_hours, now)
    failures = _upgrade(load, latest, _of_former_schemas(latest), commit)
    if failures:
        more = f"; and {len(failures) - 1:,} more" if len(failures) > 1 else ""
        raise LoaderError(f"not all hours were upgraded: {failures[0]}{more}")


def upgrade_few(load: TableLoad, before: Manifest | None, latest: Manifest, commit: Commit) -> None:
    """Upgrades complete hours of former schemas if they are few and small. If there are more, the
    load that has changed the table's columns since the manifest `before` warns. Raises
    LoaderError."""
    hours = _of_former_schemas(latest)
    known_hours = [
        hour
        for hour in hours
        if latest.hours[hour].complete >= 0 and latest.hours[hour].schema_number > 0
    ]
    size = sum(latest.hours[hour].bytes for hour in known_hours)
    if len(known_hours) <= FEW_HOURS and size <= load.context.config.upgrade_bytes:
        for failure in _upgrade(load, latest, known_hours, commit):
            load.warn(failure)
        hours = [hour for hour in hours if hour not in known_hours]
    has_changed = before is not None and before.schema_number != latest.schema_number
    if complete_hours := [hour for hour in hours if latest.hours[hour].complete >= 0]:
        command = load_command(load.name, load.context.request.config_options)
        if has_changed:
            load.warn(
                f"the columns of {len(complete_hours):,} complete hours may be those of a former"
                f" schema, which not every reader accepts; to rewrite them:"
                f" {command} --upgrade-schema"
            )


def _of_former_schemas(latest: Manifest) -> list[Hour]:
    return [hour for hour in sorted(latest.hours) if not has_table_columns(latest, hour)]


def _upgrade(load: TableLoad, latest: Manifest, hours: Iterable[Hour], commit: Commit) -> list[str]:
    """Upgrades these hours. Returns why some of them were not."""
    failures: list[str] = []
    now, store = load.context.now(), load.context.store
    for part in _parts(latest, hours):
        # A run drops hours from the manifest that may be forgotten.
        latest = recalled(store, latest, part, now)
        try:
            latest = _upgraded(load, latest, part, commit, failures)
            continue
        except (RunTaken, Interrupted, StoreError):
            raise
        except LoaderError as error:
            load.check_stopped()
            if len(part) == 1:
                failures.append(f"{hour_path(load.name, part[0])}: {error}")
                continue
        for hour in part:
            latest = recalled(store, latest, [hour], now)
            try:
                latest = _upgraded(load, latest, [hour], commit, failures)
            except (RunTaken, Interrupted, StoreError):
                raise
            except LoaderError as error:
                load.check_stopped()
                failures.append(f"{hour_path(load.name, hour)}: {error}")
    return failures


def _parts(latest: Manifest, hours: Iterable[Hour]) -> Iterator[list[Hour]]:
    """The hours of each run."""
    part: list[Hour] = []
    size = 0
    for hour in hours:
        hour_bytes = latest.hours[hour].bytes
        if part and (len(part) >= MOST_HOURS or size + hour_bytes > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(hour)
        size += hour_bytes
    if part:
        yield part


def _upgraded(
    load: TableLoad,
    latest: Manifest,
    hours: Sequence[Hour],
    commit: Commit,
    failures: list[str],
) -> Manifest:
    """The manifest after a run that rewrites these hours. Hours with files that are not as
    committed become `failures`."""
    context, store = load.context, load.context.store
    load.check_stopped()
    load.doing(f"upgrading {len(hours)} hours from {hour_path(load.name, hours[0])} on")
    states = {hour: latest.hours[hour] for hour in hours}
    latest = listed(store, latest, hours)
    sizes = {
        entry.path: entry.size
        for hour in hours
        for entry in store.list(hour_path(load.name, hour))
        if not entry.is_folder
    }
    changed_files = TableCheck(load).changed_files(latest, hours)
    intact_hours = []
    for hour, state in states.items():
        paths = latest.hours[hour].files
        if changed_files.get(hour) or not _is_intact(state, paths, sizes):
            failures.append(f"{hour_path(load.name, hour)}: its files are not as committed")
        else:
            intact_hours.append(hour)
    if not intact_hours:
        return latest
    others = other_files(load, latest, intact_hours)
    config = context.config.completeness
    rewrites = [
        rewrite
        for hour in intact_hours
        if (
            rewrite := rewrite_of(
                hour,
                latest.hours[hour].files,
                sizes,
                below=0,
                to=config.merge_to,
                others=others[hour],
            )
        )
        is not None
    ]
    folder = run_folder(load.name, next_run(latest), uuid.uuid4().hex)
    with Attempt(load.commit_log, folder) as attempt:
        rewritten = rewrite_files(load, latest, rewrites, sizes, folder)
        manifest = rewrite_manifest(
            latest,
            rewritten,
            uniform=intact_hours,
            reason=RewriteReason.COLUMNS,
            now=context.now(),
            loader=context.loader,
        )
        manifest = commit(manifest, latest, attempt)
    load.outcome.upgraded += [rewrite.hour for rewrite in rewrites]
    load.outcome.upgraded_files += sum(len(rewrite.files) for rewrite in rewrites)
    return manifest


def _is_intact(state: HourState, paths: Sequence[str], sizes: Mapping[str, int]) -> bool:
    """Whether the hour has as many files and bytes as were committed."""
    if len(paths) != len(state.files) + state.unlisted or any(path not in sizes for path in paths):
        return False
    return not state.bytes or sum(sizes[path] for path in paths) == state.bytes
