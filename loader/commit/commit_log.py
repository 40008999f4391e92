"""The commit log of a table: a run commits by creating its manifest.

The newest manifest has the state of the table, but of hours and sources often only what changed
since a complete manifest, which it names: two files are enough to read the state. A complete one is
written again when all changes since the last would take more room than it (`_written`). The
complete manifest on which a kept one builds is kept as well, with those between. So there is no
file that a crash can leave behind or out of date.

The loader that creates `manifest-N.json` commits run N; only one can. Before that, nothing that the
run wrote counts; after it, the run has happened, and the next loader completes whatever is left to
do. To bound that work, a run is committed only once the files of the run before it are visible;
entries of the ledger may wait longer.

A table's first run starts from an empty folder. Files without a commit log come from another
loader, or from this one before its log was lost; reading the topic from its start would add all
their rows again, possibly under the same file names.

What a failed attempt at a run has staged is deleted with it, since the cause of the failure may
persist, and each further attempt would leave all that it read. What a killed process leaves is
deleted by `clean` (publishing.py).

Files are committed with a checksum of their content, so that later changes can be detected. It is
computed from the staged files just before the commit. Their rows have been counted by then, so it
is of the bytes that were verified.
"""

from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final

import msgspec

from ground.known_types import known_type
from loader.commit.changes import changes, with_changes
from loader.commit.layout import (
    STAGING,
    manifest_path,
    published_path,
    run_of_manifest,
    run_of_published,
    run_of_visible,
    table_state,
    visible_path,
)
from loader.errors import LoaderError, RunTaken, StoreError
from loader.store.parallel import in_parallel
from loader.store.store import Entry, Store
from loader.values.manifests import VERSION_OF_CHANGES, Manifest, RunKind

FEWEST_KEPT: Final = 10
MOST_BYTES: Final = 256 * 1024 * 1024  # of a manifest that can be written or read
COMPLETE_BELOW: Final = 32 * 1024  # bytes: a shorter manifest is always complete
MOST_CHANGES: Final = 100  # runs from one complete manifest to the next
READERS: Final = 8  # files whose checksums are computed at a time
_REMEMBERED: Final = 2  # manifests: a load makes up to two runs


class _Version(msgspec.Struct):
    version: int


class ListedRuns(msgspec.Struct, frozen=True):
    """The runs that have a manifest, those that have a mark, and the table's other folders there,
    from one listing."""

    committed: frozenset[int]
    visible: frozenset[int]
    published: frozenset[int]
    folders: frozenset[str] = frozenset()

    @property
    def newest(self) -> int:
        """The newest run; 0 before the first."""
        return max(self.committed, default=0)

    @property
    def unpublished(self) -> list[int]:
        """Runs that may not be completely published yet, in ascending order."""
        return sorted(self.committed - self.published)


class CommitLog:
    """The manifests of one table. Used by one thread. Remembers the newest state that it has read
    or committed: manifests never change, so only newer ones need to be read. Remembers the last
    listing as well (`known`)."""

    def __init__(
        self,
        store: Store,
        table: str,
        *,
        most_bytes: int = MOST_BYTES,
        complete_below: int = COMPLETE_BELOW,
    ) -> None:
        self.store = store
        self.table = table
        self._most_bytes = most_bytes
        self._complete_below = complete_below
        self._latest: Manifest | None = None
        self._base: Manifest | None = None  # the complete manifest on which it builds, or itself
        self._remembered: dict[int, Manifest] = {}  # the newest ones, as they were written
        self._known: ListedRuns | None = None

    def runs(self) -> list[int]:
        """The runs whose manifests exist, in ascending order."""
        return sorted(self.listed().committed)

    def latest(self, listed: ListedRuns | None = None) -> Manifest | None:
        """The newest run's manifest, with all hours and sources; None before the first run.
        `listed` are the runs, if they were just listed."""
        newest = (listed or self.listed()).newest
        if not newest:
            return None
        if self._latest is None or self._latest.run != newest:
            manifest = self.read(newest)
            self._base = self._base_of(manifest)
            self._latest = with_changes(self._base, manifest) if manifest.since else manifest
        return self._latest

    def read(self, run: int) -> Manifest:
        """The manifest of a run, which may have only the hours and sources that changed. Raises
        StoreError if it cannot be read, since a manifest is never skipped."""
        manifest = self._remembered.get(run) or self._read(run)
        self._remember(manifest)
        return manifest

    def _remember(self, manifest: Manifest) -> None:
        self._remembered[manifest.run] = manifest
        for run in sorted(self._remembered)[:-_REMEMBERED]:
            del self._remembered[run]

    def _read(self, run: int) -> Manifest:
        path = manifest_path(self.table, run)
        data = self.store.read(path, self._most_bytes)
        if data is None:
            raise StoreError(f"{self.store.uri(path)} does not exist")
        try:
            version = msgspec.json.decode(data, type=known_type(_Version)).version
            if version > VERSION_OF_CHANGES:
                raise StoreError(
                    f"{self.store.uri(path)} was written by a newer Penstock (manifest version"
                    f" {version}, this one reads {VERSION_OF_CHANGES}): load with the newer"
                    " Penstock"
                )
            manifest = msgspec.json.decode(data, type=known_type(Manifest))
        except msgspec.MsgspecError as error:
            raise StoreError(f"{self.store.uri(path)} is damaged: {error}") from error
        if (manifest.table, manifest.run) != (self.table, run):
            raise StoreError(
                f"{self.store.uri(path)} is damaged: it contains run {manifest.run} of table"
                f" {manifest.table}"
            )
        return manifest

    def _base_of(self, manifest: Manifest) -> Manifest:
        """The complete manifest on which this one builds, or itself."""
        if not manifest.since:
            return manifest
        if self._base is not None and self._base.run == manifest.since:
            return self._base
        uri = self.store.uri(manifest_path(self.table, manifest.run))
        try:
            base = self.read(manifest.since)
        except StoreError as error:
            raise StoreError(
                f"{uri} has only what changed since run {manifest.since}: {error}"
            ) from error
        if base.since:
            raise StoreError(f"{uri} is damaged: it builds on run {base.run}, which is incomplete")
        return base

    def commit(self, manifest: Manifest) -> None:
        """Commits a run. Raises RunTaken if another loader was faster, and LoaderError if the
        manifest is too long to be read again. After StoreError the outcome is unknown."""
        written, data = self._written(manifest)
        self.store.sync([added.staged for added in manifest.adds])
        path = manifest_path(self.table, manifest.run)
        listed_runs, previous_run = self.listed(), manifest.run - 1
        if previous_run > 0 and previous_run not in listed_runs.visible:
            raise RunTaken(
                f"table {self.table}: another loader committed run {previous_run}, and is still"
                " making it visible; this run was discarded"
            )
        # The store lets old numbers be created again once their manifests are deleted.
        if listed_runs.newest >= manifest.run or not self.store.create(path, data):
            raise RunTaken(
                f"table {self.table}: another loader committed run {manifest.run} meanwhile;"
                " this run was discarded"
            )
        self._note(committed=manifest.run)
        self._latest = manifest
        if not written.since:
            self._base = manifest
        self._remember(written)

    def _written(self, manifest: Manifest) -> tuple[Manifest, bytes]:
        """The manifest as it is written, complete or with changes only, and its file's content."""
        data = msgspec.json.encode(manifest)
        if len(data) > self._most_bytes:
            raise LoaderError(_too_long(manifest, len(data), self._most_bytes))
        latest, base = self._latest, self._base
        if base is None or latest is None or latest.run != manifest.run - 1:
            return manifest, data
        runs = manifest.run - base.run
        if len(data) < self._complete_below or runs > MOST_CHANGES:
            return manifest, data
        if (changed := changes(base, manifest)) is None:
            return manifest, data
        data_of_changes = msgspec.json.encode(changed)
        # Changes accumulate: before long they would take more room than complete manifests.
        if len(data_of_changes) * runs > len(data):
            return manifest, data
        return changed, data_of_changes

    def is_visible(self, run: int) -> bool:
        return self.store.size(visible_path(self.table, run)) is not None

    def mark_visible(self, run: int) -> None:
        """Marks a run whose files and markers are all in place: the next run may be committed."""
        self.store.create(visible_path(self.table, run), b"")
        self._note(visible=run)

    def mark_published(self, run: int) -> None:
        self.store.create(published_path(self.table, run), b"")
        self._note(published=run)

    def forget(self, keep: int) -> None:
        """Removes all but the newest `keep` manifests and those on which they build, but never one
        of an unpublished run."""
        listed_runs = self.known()
        runs = sorted(listed_runs.committed)
        old_runs = listed_runs.published.intersection(runs[: -max(keep, FEWEST_KEPT)])
        if old_runs:
            first_needed = self._first_needed(runs[-max(keep, FEWEST_KEPT)])
            old_runs = frozenset(run for run in old_runs if run < first_needed)
        self.store.delete_files([manifest_path(self.table, run) for run in sorted(old_runs)])
        # The marks go last: without them, the run would be published again.
        visible_runs = old_runs | (listed_runs.visible - listed_runs.committed)
        published_runs = old_runs | (listed_runs.published - listed_runs.committed)
        self.store.delete_files(
            [
                *(visible_path(self.table, run) for run in sorted(visible_runs)),
                *(published_path(self.table, run) for run in sorted(published_runs)),
            ]
        )
        self._known = msgspec.structs.replace(
            listed_runs,
            committed=listed_runs.committed - old_runs,
            visible=listed_runs.visible - visible_runs,
            published=listed_runs.published - published_runs,
        )

    def _first_needed(self, first_kept: int) -> int:
        """The first run without which this or a later one could not be read."""
        try:
            # A later run builds on the same one, or on a later one.
            return self.read(first_kept).since or first_kept
        except StoreError:
            return 0  # unknown, so nothing is removed until this run is not kept any more

    def known(self) -> ListedRuns:
        """The runs as they were last listed, with what this loader has done since. Lacks what other
        loaders have done since: enough to forget old runs or to find their manifests, but not to
        commit, or to tell whether a run is the newest."""
        return self._known or self.listed()

    def _note(self, *, committed: int = 0, visible: int = 0, published: int = 0) -> None:
        """Adds what this loader has done to the remembered listing."""
        if self._known is not None:
            self._known = msgspec.structs.replace(
                self._known,
                committed=self._known.committed | {committed} - {0},
                visible=self._known.visible | {visible} - {0},
                published=self._known.published | {published} - {0},
            )

    def listed(self) -> ListedRuns:
        """Lists the commit log."""
        entries = self.store.list(table_state(self.table))
        names = [entry.name for entry in entries if not entry.is_folder]

        def runs(number: Callable[[str], int | None]) -> frozenset[int]:
            return frozenset(run for name in names if (run := number(name)) is not None)

        self._known = ListedRuns(
            runs(run_of_manifest),
            runs(run_of_visible),
            runs(run_of_published),
            frozenset(entry.name for entry in entries if entry.is_folder),
        )
        return self._known


def _too_long(manifest: Manifest, size: int, limit: int) -> str:
    """The error message, with advice for the largest part of the manifest."""
    advice = {
        "sources": "too many sources are remembered: lower `forget_sources`",
        "passages": "the run read too much: lower --max-records",
        "adds": "the run has too many files: lower --max-records, or raise `tasks.records`",
        "hours": "its open hours have too many files",
    }
    sizes = {part: len(msgspec.json.encode(getattr(manifest, part))) for part in advice}
    largest_part = max(sizes, key=lambda part: sizes[part])
    return (
        f"table {manifest.table}: the manifest of run {manifest.run} would be {size:,} bytes long,"
        f" and the limit is {limit:,}; {advice[largest_part]}; nothing was committed"
    )


class Attempt:
    """A context manager that deletes a run's staged files after an error, unless the run may have
    been committed. Best effort: cancelled tasks may still write."""

    def __init__(self, commit_log: CommitLog, folder: str) -> None:
        """Only this attempt writes to the folder."""
        self.folder = folder
        self._commit_log = commit_log
        self._may_have_happened = False

    def __enter__(self) -> "Attempt":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception) and not self._may_have_happened:
            with suppress(StoreError):
                self._commit_log.store.delete(self.folder)

    def commit(self, manifest: Manifest) -> None:
        """Commits the run; see `CommitLog.commit`. What a run that adds no files has staged, if it
        has read events, is deleted."""
        self._may_have_happened = True
        try:
            self._commit_log.commit(manifest)
        except StoreError:
            raise
        except LoaderError:
            self._may_have_happened = False
            raise
        may_be_staged = STAGING in self._commit_log.known().folders
        if may_be_staged and not manifest.adds and manifest.kind is not RunKind.CLOSE:
            with suppress(StoreError):
                self._commit_log.store.delete(self.folder)


def check_untouched(store: Store, table: str) -> None:
    """Checks that the table's folder has no files that readers would see. Raises LoaderError."""
    file = _visible_file(store, table)
    if file is None:
        return
    state = store.uri(table_state(table))
    raise LoaderError(
        f"table {table}: {store.uri(table)} already has files, such as"
        f" {file.path.removeprefix(f'{table}/')}, but no commit log at {state}: their events would"
        " be loaded again; restore the log, move the files away, or use another `root`"
    )


def _visible_file(store: Store, folder: str) -> Entry | None:
    """The first file that readers would see, if there is one."""
    for entry in store.list(folder):
        if entry.name.startswith(("_", ".")):
            continue
        file = _visible_file(store, entry.path) if entry.is_folder else entry
        if file is not None:
            return file
    return None


def with_digests(store: Store, manifest: Manifest) -> Manifest:
    """The manifest with the SHA-256 of each file that it adds. Tasks compute it while they write
    files; those that Spark's own writers made are read for it. Raises StoreError."""
    unknown_files = [file for file in manifest.adds if not file.digest]
    if not unknown_files:
        return manifest
    size = sum(file.bytes for file in unknown_files)
    staged_paths = [file.staged for file in unknown_files]
    digests = in_parallel(store.digest, staged_paths, threads=READERS, size=size)
    digest_by_path = dict(zip((file.path for file in unknown_files), digests, strict=True))
    hours = {
        file.hour: manifest.hours[file.hour]
        for file in unknown_files
        if file.hour in manifest.hours
    }
    return msgspec.structs.replace(
        manifest,
        adds=tuple(
            msgspec.structs.replace(file, digest=digest_by_path.get(file.path, file.digest))
            for file in manifest.adds
        ),
        hours=manifest.hours
        | {
            hour: state.with_files(
                {
                    path: digest_by_path.get(path, digest)
                    for path, digest in state.digest_by_file.items()
                }
            )
            for hour, state in hours.items()
        },
    )


def with_checksums(store: Store, manifest: Manifest) -> Manifest:
    """The manifest with a checksum of each file that it adds. Raises StoreError."""
    if not manifest.adds:
        return manifest
    staged_paths = [file.staged for file in manifest.adds]
    size = sum(file.bytes for file in manifest.adds)
    sums = in_parallel(store.checksum, staged_paths, threads=READERS, size=size)
    added_sums = zip(manifest.adds, sums, strict=True)
    return msgspec.structs.replace(
        manifest,
        adds=tuple(msgspec.structs.replace(file, checksum=crc) for file, crc in added_sums),
    )
