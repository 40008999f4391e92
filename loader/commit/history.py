"""The manifests of a table: what has been committed, in order. The newest is the whole truth.

Run N is committed by whoever creates `manifest-N.json`; nobody else can then. Before that, whatever
a run has written is nothing; after it, the run has happened, and what is left is to be made up for
by whoever comes next. So that this stays little, no run is committed before the files of the one
before it are visible; what only the ledger is owed may wait longer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

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
from loader.store.store import Store

FEWEST_KEPT: Final = 10
MOST_BYTES: Final = 256 * 1024 * 1024  # of a manifest: what is longer is neither written nor read


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
            version = msgspec.json.decode(data, type=_Version).version
            if version > VERSION:
                raise StoreError(
                    f"{self.store.uri(path)} was written by a newer Penstock (version {version},"
                    f" this one knows {VERSION}): load with that"
                )
            manifest = msgspec.json.decode(data, type=Manifest)
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


@dataclass(frozen=True, slots=True)
class _Listed:
    """Runs that have a manifest, and those with a mark."""

    committed: frozenset[int]
    visible: frozenset[int]
    published: frozenset[int]
