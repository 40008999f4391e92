"""Runs that only rewrite hours of a table: each rewrites a few hours, and commits them at once.
After a kill, the next request continues with the hours that are left.

Rule 1: an hour with a file that is missing, or not as committed, is left alone. A rebuild mends it.
Rule 2: if the run of several hours fails, each gets a run of its own, so that none holds up the
        others.
"""

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from loader.checks.file_check import listed as listed_files
from loader.commit.commit_log import Attempt
from loader.commit.layout import hour_path, run_folder
from loader.commit.next_state import next_run
from loader.commit.old_hours import listed, may_be_forgotten, recalled
from loader.commit.rewrites import rewrite_manifest
from loader.errors import Interrupted, LoaderError, RunTaken, StoreError
from loader.run.load_context import TableLoad
from loader.run.table_certificates import TableCertificates
from loader.run.table_check import TableCheck
from loader.run.table_rewriting import rewrite_files
from loader.values.manifests import HourState, Manifest
from loader.values.rewrites import Rewrite, RewriteReason, Rewritten
from loader.values.tables import Hour

MOST_HOURS: Final = 24  # that one run rewrites
MOST_BYTES: Final = 4 * 1024 * 1024 * 1024  # of their files, but at least one hour

# Commits the first manifest, which follows the second.
Commit = Callable[[Manifest, Manifest | None, Attempt], Manifest]
# Returns the rewrites of these hours, with the sizes of files by path, and those of the hours whose
# files then have the table's columns. The manifest lists their files.
Plan = Callable[
    [Manifest, Sequence[Hour], Mapping[str, int]], tuple[Sequence[Rewrite], Collection[Hour]]
]


def with_forgotten_hours(load: TableLoad, latest: Manifest) -> tuple[Manifest, dict[str, int]]:
    """The manifest with all hours that have files, also those that it has forgotten, and the sizes
    of the files that readers see. Raises StoreError."""
    context, now = load.context, load.context.now()
    load.doing("listing hours")
    files_by_hour = listed_files(context.store, load.name, None).files
    forgotten_hours = {
        hour for hour in files_by_hour if hour not in latest.hours and may_be_forgotten(hour, now)
    }
    sizes = {
        path: entry.size for entries in files_by_hour.values() for path, entry in entries.items()
    }
    return recalled(context.store, latest, forgotten_hours, now), sizes


class RewriteRuns:
    """The runs of one request."""

    def __init__(
        self,
        load: TableLoad,
        commit: Commit,
        plan: Plan,
        reason: RewriteReason,
        *,
        compares_all: bool = False,
    ) -> None:
        """With `compares_all`, the values of all files are compared, not only of those that are
        converted."""
        self.failures: list[str] = []  # why hours were not rewritten
        self.rewritten: list[Rewritten] = []
        self._load = load
        self._commit = commit
        self._plan = plan
        self._reason = reason
        self._compares_all = compares_all

    @property
    def failure(self) -> str:
        """Why hours were not rewritten; empty if all were."""
        if not self.failures:
            return ""
        more = f"; and {len(self.failures) - 1:,} more" if len(self.failures) > 1 else ""
        return f"{self.failures[0]}{more}"

    def run(self, latest: Manifest, hours: Iterable[Hour]) -> Manifest:
        """Rewrites these hours, and returns the newest manifest. Raises LoaderError."""
        for part in parts(latest, hours):
            try:
                latest = self._rewritten(latest, part)
                continue
            except (RunTaken, Interrupted, StoreError):
                raise
            except LoaderError as error:
                self._load.check_stopped()
                if len(part) == 1:
                    self._fail(part[0], str(error))
                    continue
            for hour in part:
                try:
                    latest = self._rewritten(latest, [hour])
                except (RunTaken, Interrupted, StoreError):
                    raise
                except LoaderError as error:
                    self._load.check_stopped()
                    self._fail(hour, str(error))
        return latest

    def _rewritten(self, latest: Manifest, hours: Sequence[Hour]) -> Manifest:
        """The manifest after a run that rewrites these hours."""
        load, context = self._load, self._load.context
        load.check_stopped()
        load.doing(f"rewriting {len(hours)} hours from {hour_path(load.name, hours[0])} on")
        # A run drops hours from the manifest that may be forgotten.
        latest = recalled(context.store, latest, hours, context.now())
        states = {hour: latest.hours[hour] for hour in hours}
        latest = listed(context.store, latest, hours)
        sizes = {
            entry.path: entry.size
            for hour in hours
            for entry in context.store.list(hour_path(load.name, hour))
            if not entry.is_folder
        }
        changed_files = TableCheck(load).changed_files(latest, hours)
        intact_hours = []
        for hour, state in states.items():
            paths = latest.hours[hour].files
            if changed_files.get(hour) or not _is_intact(state, paths, sizes):
                self._fail(hour, "its files are not as committed")
            else:
                intact_hours.append(hour)
        rewrites, uniform = self._plan(latest, intact_hours, sizes)
        if not rewrites and not uniform:
            return latest
        folder = run_folder(load.name, next_run(latest), uuid.uuid4().hex)
        with Attempt(load.commit_log, folder) as attempt:
            rewritten = rewrite_files(
                load, latest, rewrites, sizes, folder, compares_all=self._compares_all
            )
            manifest = rewrite_manifest(
                latest,
                rewritten,
                uniform=uniform,
                reason=self._reason,
                now=context.now(),
                loader=context.loader,
            )
            replaced_hours = [part.rewrite.hour for part in rewritten]
            manifest = TableCertificates(load).rewritten(manifest, latest, replaced_hours)
            manifest = self._commit(manifest, latest, attempt)
        self.rewritten += rewritten
        return manifest

    def _fail(self, hour: Hour, why: str) -> None:
        self.failures.append(f"{hour_path(self._load.name, hour)}: {why}")


def parts(latest: Manifest, hours: Iterable[Hour]) -> Iterator[list[Hour]]:
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


def _is_intact(state: HourState, paths: Sequence[str], sizes: Mapping[str, int]) -> bool:
    """Whether the hour has as many files and bytes as were committed."""
    if len(paths) != len(state.files) + state.unlisted or any(path not in sizes for path in paths):
        return False
    return not state.bytes or sum(sizes[path] for path in paths) == state.bytes
