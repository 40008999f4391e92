"""The manifests of a table: what has been committed, in order. The newest is the whole truth.

Run N is committed by whoever creates `manifest-N.json`; nobody else can then. Before that, whatever
a run has written is nothing; after it, the run has happened, and what is left is to be made up for
by whoever comes next. So that this stays little, no run is committed before the files of the one
before it are visible; what only the ledger is owed may wait longer.

A table's first run begins with nothing: files of anybody else are not added to. Rows that are there
without a commit log were landed by another loader, or by this one before its log was lost. To read
the topic from its beginning would put all of them there twice, under names that may be those of
files that are there.

What one try at a run stages is its own, and goes with it if it comes to nothing. Whatever lets a
run fail may let the next one fail, too, and the one after that: each would leave all that it has
read. A process that is killed leaves it, for `clean` (publishing.py).

Files are committed with a checksum of their content, so that it is known whether they are still
what they were. It is taken of what is staged, just before the commit: rows have been counted by
then, so these are the bytes that were found right.
"""

from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final

import msgspec

from ground.known_types import known_type
from loader.commit.layout import (
    manifest_path,
    published_path,
    run_of_manifest,
    run_of_published,
    run_of_visible,
    table_state,
    visible_path,
)
from loader.errors import LoaderError, RunTaken, StoreError
from loader.manifests import VERSION, Manifest
from loader.parallel import in_parallel
from loader.store.store import Entry, Store

FEWEST_KEPT: Final = 10
MOST_BYTES: Final = 256 * 1024 * 1024  # of a manifest: what is longer is neither written nor read
READERS: Final = 8  # of files whose checksums are taken, at a time


class _Version(msgspec.Struct):
    version: int


class History:
    """One table's. Keeps nothing in memory."""

    def __init__(self, store: Store, table: str, *, most_bytes: int = MOST_BYTES) -> None:
        self.store = store
        self.table = table
        self._most_bytes = most_bytes

    def runs(self) -> list[int]:
        """Whose manifests are there, in ascending order."""
        return sorted(self._listed().committed)

    def latest(self) -> Manifest | None:
        """None before the first run."""
        runs = self.runs()
        return self.read(runs[-1]) if runs else None

    def read(self, run: int) -> Manifest:
        """Raises StoreError if it cannot be understood: none is ever passed over."""
        path = manifest_path(self.table, run)
        data = self.store.read(path, self._most_bytes)
        if data is None:
            raise StoreError(f"{self.store.uri(path)} is not there")
        try:
            version = msgspec.json.decode(data, type=known_type(_Version)).version
            if version > VERSION:
                raise StoreError(
                    f"{self.store.uri(path)} was written by a newer Penstock (version {version},"
                    f" this one knows {VERSION}): load with that"
                )
            manifest = msgspec.json.decode(data, type=known_type(Manifest))
        except msgspec.MsgspecError as error:
            raise StoreError(f"{self.store.uri(path)} is damaged: {error}") from error
        if (manifest.table, manifest.run) != (self.table, run):
            raise StoreError(
                f"{self.store.uri(path)} is damaged: it says it is run {manifest.run} of table"
                f" {manifest.table}"
            )
        return manifest

    def commit(self, manifest: Manifest) -> None:
        """Raises RunTaken if another loader was faster, and LoaderError if it is too long to be
        read again. With StoreError, nobody knows yet."""
        self._check_visible(manifest.run - 1)
        data = msgspec.json.encode(manifest)
        if len(data) > self._most_bytes:
            raise LoaderError(_too_long(manifest, len(data), self._most_bytes))
        self.store.sync([added.staged for added in manifest.adds])
        path = manifest_path(self.table, manifest.run)
        before = max(self.runs(), default=0)
        # Numbers that are long gone are free again in the store, and taken all the same.
        if before >= manifest.run or not self.store.create(path, data):
            raise RunTaken(
                f"table {self.table}: another loader has committed run {manifest.run} meanwhile;"
                " nothing of this one was kept"
            )

    def is_visible(self, run: int) -> bool:
        return self.store.size(visible_path(self.table, run)) is not None

    def newest_visible(self) -> int:
        """0 before the first run."""
        return max(self._listed().visible, default=0)

    def mark_visible(self, run: int) -> None:
        """Its files and markers are all where they belong: others may come."""
        self.store.create(visible_path(self.table, run), b"")

    def unpublished(self) -> list[int]:
        """Runs for which something may be left to be done, in ascending order."""
        listed = self._listed()
        return sorted(listed.committed - listed.published)

    def mark_published(self, run: int) -> None:
        self.store.create(published_path(self.table, run), b"")

    def forget(self, keep: int) -> None:
        """Removes manifests beyond so many, but never one of a run that is not done."""
        listed = self._listed()
        kept = set(sorted(listed.committed)[-max(keep, FEWEST_KEPT) :])
        old = (listed.committed & listed.published) - kept
        for run in sorted(old):
            self.store.delete(manifest_path(self.table, run))
        # The marks go last: a run without them would be made up for.
        for run in sorted(old | (listed.visible - listed.committed)):
            self.store.delete(visible_path(self.table, run))
        for run in sorted(old | (listed.published - listed.committed)):
            self.store.delete(published_path(self.table, run))

    def _check_visible(self, run: int) -> None:
        if run > 0 and not self.is_visible(run):
            raise RunTaken(
                f"table {self.table}: another loader has committed run {run}, and is still making"
                " it visible; nothing of this one was kept"
            )

    def _listed(self) -> "_Listed":
        names = [entry.name for entry in self.store.list(table_state(self.table))]

        def runs(number: Callable[[str], int | None]) -> frozenset[int]:
            return frozenset(run for name in names if (run := number(name)) is not None)

        return _Listed(runs(run_of_manifest), runs(run_of_visible), runs(run_of_published))


def _too_long(manifest: Manifest, size: int, limit: int) -> str:
    """And what to do about the largest part of it."""
    advice = {
        "sources": "it remembers too many sources: lower `forget_sources`",
        "passages": "it has read too much at a time: load less with --max-records",
        "adds": "it has too many files: load less with --max-records, or raise `tasks.records`",
        "hours": "its hours that are open have too many files",
    }
    sizes = {part: len(msgspec.json.encode(getattr(manifest, part))) for part in advice}
    largest = max(sizes, key=lambda part: sizes[part])
    return (
        f"table {manifest.table}: the manifest of run {manifest.run} would be {size:,} bytes long,"
        f" and at most {limit:,} can be read again; {advice[largest]}; nothing was committed"
    )


class _Listed(msgspec.Struct, frozen=True):
    """Runs that have a manifest, and those with a mark."""

    committed: frozenset[int]
    visible: frozenset[int]
    published: frozenset[int]


class Attempt:
    """A context: an error that leaves it takes the folder along, unless the run may have happened.

    Best effort: tasks that were cancelled may still write.
    """

    def __init__(self, history: History, folder: str) -> None:
        """Nobody else writes to the folder."""
        self.folder = folder
        self._history = history
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
                self._history.store.delete(self.folder)

    def commit(self, manifest: Manifest) -> None:
        """As `History.commit`."""
        self._may_have_happened = True
        try:
            self._history.commit(manifest)
        except StoreError:
            raise
        except LoaderError:
            self._may_have_happened = False
            raise


def check_untouched(store: Store, table: str) -> None:
    """Raises LoaderError if readers of the table would find anything already."""
    found = _visible_file(store, table)
    if found is None:
        return
    state = store.uri(table_state(table))
    raise LoaderError(
        f"table {table}: {store.uri(table)} has files already, such as"
        f" {found.path.removeprefix(f'{table}/')}, and there is no commit log at {state}: all would"
        " be loaded again beside them; put the log back, move the files away, or use another `root`"
    )


def _visible_file(store: Store, folder: str) -> Entry | None:
    """One that readers do not pass over. Looks no further than to the first."""
    for entry in store.list(folder):
        if entry.name.startswith(("_", ".")):
            continue
        found = _visible_file(store, entry.path) if entry.is_folder else entry
        if found is not None:
            return found
    return None


def with_checksums(store: Store, manifest: Manifest) -> Manifest:
    """The same with those of all files that it adds. Raises StoreError."""
    if not manifest.adds:
        return manifest
    staged = [each.staged for each in manifest.adds]
    size = sum(each.bytes for each in manifest.adds)
    sums = in_parallel(store.checksum, staged, threads=READERS, size=size)
    added = zip(manifest.adds, sums, strict=True)
    return msgspec.structs.replace(
        manifest, adds=tuple(msgspec.structs.replace(each, checksum=one) for each, one in added)
    )
