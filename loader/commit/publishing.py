"""Publishes a committed run: makes its files visible, writes its ledger entries, and commits
offsets to the brokers. Every step can be repeated, and is repeated until the run is marked as
published, by this load or, if it was cut short, by the next.

Markers that no longer hold are removed first. Then, hour by hour, replaced files are deleted, new
files renamed into place, and new markers written. So rows of an hour may be missing for a moment,
but are never there twice. A file is only deleted once its replacement is known to exist. Files
with rows that exist nowhere else are moved to `_penstock/{table}/replaced` instead, where `clean`
deletes them after 30 days.

After an interruption at any step, the next load starts over; two loads may also do it at the same
time. A name is never reused for another file, so neither undoes the other's work. Only markers
change: a loader that hangs while others commit later runs may write an outdated marker. It notices
that and corrects it; if it dies first, the next load does.

In an hour with `_DAMAGED` no run writes `_SUCCESS`, and only a rebuild removes `_DAMAGED`.

A run's entries are proven with the key that its manifest names, so a load with another key leaves
them to one that has it. Entries of runs from before signatures have no proofs.

Files never wait for the ledger. Its entries are written in the order of the runs: after a failure,
later runs wait as well, until the next load.
"""

import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from client.connection.brokers import Brokers
from client.errors import ClientError
from client.groups.offset_commits import Consumed, commit_offsets
from client.producing.delivery import TopicPartition
from ground.signatures.keys import SigningKey
from ledger.proofs import Chain
from ledger.publishing import write_entries
from loader.commit.commit_log import CommitLog, ListedRuns
from loader.commit.layout import (
    COMPLETE_HOURS,
    DAMAGED,
    SUCCESS,
    newest_certificate_path,
    replaced,
    run_folder_of,
    run_of_folder,
    staging,
)
from loader.errors import StoreError
from loader.ledger.entries import entries_of
from loader.store.parallel import in_parallel
from loader.store.store import CREATING, Entry, Store
from loader.values.manifests import Added, Manifest, Marker
from schemas.errors import SchemaError
from schemas.registry_client import RegistryClient

_DAY_MILLIS: Final = 86_400_000
_READERS: Final = 8  # markers that are read at a time
_LOOK_SECONDS: Final = 1.0  # for which a run is taken to be as it was
_Names = Mapping[str, set[str]]  # by folder
ABANDONED_MILLIS: Final = _DAY_MILLIS
REPLACED_MILLIS: Final = 30 * _DAY_MILLIS


def publish(
    store: Store,
    manifest: Manifest,
    commit_log: CommitLog | None = None,
    *,
    is_new: bool = False,
) -> None:
    """Makes the run's files visible. Raises StoreError if it must be called again. `is_new`: this
    loader has just committed the run.

    Once the run is visible, no matter which loader did it, later runs may have changed its hours.
    """
    commit_log = commit_log or CommitLog(store, manifest.table)
    visibility = _Visibility(commit_log, manifest.run)
    if is_new:
        visibility.note_hidden()
    elif visibility.is_visible():
        return
    try:
        _publish(store, visibility, manifest)
    except StoreError:
        if not commit_log.is_visible(manifest.run):
            raise
        was_visible = True
    else:
        # A run without markers cannot have overwritten those of later runs.
        was_visible = bool(manifest.markers) and commit_log.is_visible(manifest.run)
    if was_visible:
        restore_markers(store, commit_log, since=manifest.run)
        return
    commit_log.mark_visible(manifest.run)
    for folder in sorted({run_folder_of(added.staged) for added in manifest.adds}):
        with suppress(StoreError):  # the run is visible, and the next load removes the folder
            store.delete(folder)


class _Visibility:
    """Looks, at most once a second, whether another loader has made a run visible.

    A loader that hangs for longer thus writes no outdated marker, as a rule. It may still write
    one, so `publish` always looks at the end, after the last marker, and then corrects it.
    """

    def __init__(self, commit_log: CommitLog, run: int) -> None:
        self._commit_log = commit_log
        self._run = run
        self._hidden_at = -_LOOK_SECONDS

    def note_hidden(self) -> None:
        """Notes that the run is not visible yet."""
        self._hidden_at = time.monotonic()

    def is_visible(self) -> bool:
        if time.monotonic() < self._hidden_at + _LOOK_SECONDS:
            return False
        looked_at = time.monotonic()
        if self._commit_log.is_visible(self._run):
            return True
        self._hidden_at = looked_at
        return False


def restore_markers(
    store: Store, commit_log: CommitLog, *, since: int, listed: ListedRuns | None = None
) -> list[str]:
    """Restores markers to what the newest run that writes them wrote, considering all runs from
    `since` on; `listed` are the runs, if they were just listed. Returns the paths of the restored
    markers."""
    restored_paths: list[str] = []
    listed = listed or commit_log.listed()
    while True:
        manifests = [commit_log.read(run) for run in sorted(listed.committed) if run >= since]
        if not manifests:
            return restored_paths
        newest_manifest = manifests[-1]
        if newest_manifest.run not in listed.visible:
            publish(store, newest_manifest, commit_log)
        wrong_markers, names = _wrong_markers(store, manifests)
        for marker in wrong_markers:
            _mark(store, marker, names)
        restored_paths += [marker.path for marker in wrong_markers]
        if not wrong_markers:
            return restored_paths
        # This may have overwritten a marker of a run committed meanwhile.
        listed = commit_log.listed()
        if listed.newest == newest_manifest.run:
            return restored_paths


def clean(
    store: Store,
    table: str,
    listed: ListedRuns | None = None,
    *,
    abandoned_after: int = ABANDONED_MILLIS,
    replaced_after: int = REPLACED_MILLIS,
) -> None:
    """Removes the table's files of unfinished runs, and replaced files that were kept for a time.
    `listed` is the table's commit log, if it was just listed.

    Another loader may be working on the next run. Its files are left alone unless they are a day
    old by the store's own clock: if the host's clock counted, one that is wrong by a day would
    delete what another loader has committed and is about to publish. Files staged for a visible run
    are obsolete, even if a loader that does not know this still writes there. Raises StoreError if
    something could not be removed, after trying everything; a later load removes it, and nothing
    needs to wait.
    """
    listed = listed or CommitLog(store, table).listed()
    _remove(store, _leftovers(store, table, listed, abandoned_after, replaced_after))


def clean_creating(
    store: Store, unfinished: Sequence[Entry], *, abandoned_after: int = ABANDONED_MILLIS
) -> None:
    """Removes files of all tables that were never completely created, like `clean`. `unfinished`
    are those that `Store.prove` found, the newest its own, which shows the store's time."""
    store_time = max((entry.modified for entry in unfinished), default=0)
    store.delete_files(
        [entry.path for entry in unfinished if entry.modified < store_time - abandoned_after]
    )


def _remove(store: Store, paths: Iterable[str]) -> None:
    first_error: StoreError | None = None
    for path in paths:
        try:
            store.delete(path)
        except StoreError as error:
            first_error = first_error or error
    if first_error is not None:
        raise first_error


def _leftovers(
    store: Store, table: str, listed: ListedRuns, abandoned_after: int, replaced_after: int
) -> Iterator[str]:
    visible_run = max(listed.visible, default=0)
    entries = {
        folder: store.list(folder) if folder.rpartition("/")[2] in listed.folders else ()
        for folder in (replaced(table), staging(table))
    }
    candidates = [(entry, replaced_after) for entry in entries[replaced(table)]]
    for entry in entries[staging(table)]:
        run = run_of_folder(entry.name)
        if run is not None and run <= visible_run:
            yield entry.path
        elif run is not None:
            candidates.append((entry, abandoned_after))
    yield from _old(store, candidates)


def _old(store: Store, candidates: Collection[tuple[Entry, int]]) -> Iterator[str]:
    """The paths of those entries that are older than their milliseconds."""
    if not candidates:
        return
    store_time = _store_time(store)
    for entry, kept_millis in candidates:
        if _last_written(store, entry) < store_time - kept_millis:
            yield entry.path


def _store_time(store: Store) -> int:
    """The time of the store's clock, in milliseconds: that of a newly written file."""
    path = f"{CREATING}/{uuid.uuid4().hex}"
    store.replace(path, b"")
    times = [entry.modified for entry in store.list(CREATING) if entry.path == path]
    store.delete(path)
    if not times:
        raise StoreError(f"{store.uri(path)} was written, but its folder does not list it")
    return times[0]


def _publish(store: Store, visibility: _Visibility, manifest: Manifest) -> None:
    """Makes files and markers visible. Returns early if another loader has done it."""
    names = _names(
        store,
        (
            marker
            for marker in manifest.markers
            if not marker.written or marker.path.endswith(f"/{SUCCESS}")
        ),
    )
    added_by_folder: dict[str, list[Added]] = defaultdict(list)
    removed_by_folder: dict[str, list[str]] = defaultdict(list)
    markers: dict[str, list[Marker]] = defaultdict(list)
    last_paths = {
        f"{manifest.table}/{COMPLETE_HOURS}",
        newest_certificate_path(manifest.table),
    }
    last_markers: list[Marker] = []  # once the hours have their own markers
    for added in manifest.adds:
        added_by_folder[_folder(added.path)].append(added)
    for path in manifest.removes:
        removed_by_folder[_folder(path)].append(path)
    for marker in manifest.markers:
        if marker.path in last_paths:
            last_markers.append(marker)
        elif marker.written:
            markers[_folder(marker.path)].append(marker)
        elif not _may_exist(marker.path, names):
            continue
        elif visibility.is_visible():
            return
        else:
            _mark(store, marker, names)
    for folder in sorted({*added_by_folder, *removed_by_folder, *markers}):
        _publish_folder(store, added_by_folder[folder], removed_by_folder[folder], manifest.kept_in)
        if markers[folder] and visibility.is_visible():
            return
        for marker in markers[folder]:
            _mark(store, marker, names)
    for marker in last_markers:
        if visibility.is_visible():
            return
        _mark(store, marker, names)
    kept = {f"{manifest.kept_in}/{folder}" for folder in removed_by_folder if manifest.kept_in}
    store.sync(sorted({*added_by_folder, *removed_by_folder, *kept}))


def _publish_folder(
    store: Store, adds: Sequence[Added], removes: Sequence[str], kept_in: str
) -> None:
    if removes:
        for added in adds:
            _check_exists(store, added)
    if not kept_in:
        store.delete_files(removes)
    for path in removes if kept_in else ():
        store.rename(path, f"{kept_in}/{path}")
    for added in adds:
        if not store.rename(added.staged, added.path):
            _check_exists(store, added)


def _check_exists(store: Store, added: Added) -> None:
    """Checks that the file is at one of its two paths."""
    if not any(store.size(path) == added.bytes for path in (added.staged, added.path)):
        raise StoreError(
            f"{store.uri(added.path)}: the file with {added.rows:,} committed rows is neither there"
            f" nor at {added.staged}"
        )


def _names(store: Store, markers: Iterable[Marker]) -> _Names:
    """The names of what is in the hours' folders of these markers. One listing takes fewer requests
    than to look for each marker."""
    folders = sorted({folder for marker in markers if "/" in (folder := _folder(marker.path))})
    listings = in_parallel(store.list, folders, threads=_READERS)
    return {
        folder: {entry.name for entry in listing}
        for folder, listing in zip(folders, listings, strict=True)
    }


def _may_exist(path: str, names: _Names) -> bool:
    folder, _, name = path.rpartition("/")
    return folder not in names or name in names[folder]


def _mark(store: Store, marker: Marker, names: _Names) -> None:
    folder, _, name = marker.path.rpartition("/")
    if not marker.written:
        store.delete_files([marker.path])
        names.get(folder, set()).discard(name)
    elif not _is_damaged(marker.path, names):
        store.replace(marker.path, marker.written)


def _is_damaged(path: str, names: _Names) -> bool:
    """Whether the path is that of `_SUCCESS` in an hour that is marked as damaged."""
    folder, _, name = path.rpartition("/")
    return name == SUCCESS and DAMAGED in names.get(folder, ())


def _wrong_markers(store: Store, manifests: Sequence[Manifest]) -> tuple[list[Marker], _Names]:
    """Markers that differ, except in hours whose files were deleted, and the names in their
    folders."""
    markers_by_path = {marker.path: marker for manifest in manifests for marker in manifest.markers}
    names = _names(store, (marker for marker in markers_by_path.values() if not marker.written))
    paths = [path for path in sorted(markers_by_path) if not path.endswith(f"/{DAMAGED}")]
    existing_paths = [path for path in paths if _may_exist(path, names)]
    contents = in_parallel(store.read, existing_paths, threads=_READERS)
    content_by_path = dict(zip(existing_paths, contents, strict=True))
    differing_markers = [
        markers_by_path[path]
        for path in paths
        if (content_by_path.get(path) or b"") != markers_by_path[path].written
    ]
    unlisted_markers = (marker for marker in differing_markers if _folder(marker.path) not in names)
    names = {**names, **_names(store, unlisted_markers)}
    # A run's manifest has at least the hours of its own markers.
    hours = {hour: state for manifest in manifests for hour, state in manifest.hours.items()}
    folders_with_files = {_folder(path) for state in hours.values() for path in state.files}
    emptied_folders = {folder for folder in folders_with_files if names.get(folder) == set()}
    wrong_markers = [
        marker
        for marker in differing_markers
        if _folder(marker.path) not in emptied_folders
        and not (marker.written and _is_damaged(marker.path, names))
    ]
    return wrong_markers, names


def _last_written(store: Store, entry: Entry) -> int:
    """The newest modification time in a folder, or that of a file."""
    if not entry.is_folder:
        return entry.modified
    entries = [*store.list(entry.path), *store.list_recursively(entry.path)]
    return max([entry.modified, *(entry.modified for entry in entries)])


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


class Publication:
    """Publishes the runs of one table during one load."""

    def __init__(
        self,
        commit_log: CommitLog,
        brokers: Brokers,
        registry: RegistryClient,
        *,
        topics: Collection[str],
        group: str,
        key: SigningKey | None,
        doing: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        """`topics` feed the table now. `key` proves ledger entries. `doing` receives the current
        step, `warn` warnings for the operator."""
        self._commit_log = commit_log
        self._brokers = brokers
        self._registry = registry
        self._topics = topics
        self._group = group
        self._key = key
        self._own_keys = {"", "" if key is None else key.public.fingerprint}
        self._doing = doing
        self._warn = warn
        self._ledger_failed = False
        self._owing: list[int] = []  # runs that the ledger lacks, in ascending order
        self.rolled_forward: int | None = None  # an interrupted run that this load made visible

    def publish_unfinished(self, listed: ListedRuns) -> None:
        """Publishes those of the listed runs that were interrupted or that the ledger lacks."""
        self._owing = listed.unpublished
        if listed.committed:
            self._publish_owing(listed)
            self._restore_markers(listed)

    def _publish_owing(self, listed: ListedRuns) -> None:
        unpublished_runs, newest = self._owing, listed.newest
        if not unpublished_runs:
            return
        self._doing(f"completing run {unpublished_runs[0]}")
        if newest not in unpublished_runs:
            self._write_to_ledger()
            return
        # A run is only committed once the one before it is visible: at most this one is not.
        self.publish(self._commit_log.read(newest))
        if newest not in listed.visible:
            self.rolled_forward = newest

    def _restore_markers(self, listed: ListedRuns) -> None:
        """Restores markers of the previous load, which may have made two runs."""
        store, since = self._commit_log.store, listed.newest - 1
        for path in restore_markers(store, self._commit_log, since=since, listed=listed):
            self._warn(f"{path} differed from what the newest run wrote; it was restored")

    def publish(self, manifest: Manifest, *, is_new: bool = False) -> None:
        """Publishes the newest run. `is_new`: this loader has just committed it."""
        self._doing(f"publishing run {manifest.run}")
        publish(self._commit_log.store, manifest, self._commit_log, is_new=is_new)
        self._commit_offsets(manifest)
        if not manifest.ledger_entries:
            self._commit_log.mark_published(manifest.run)
            self._owing = [run for run in self._owing if run != manifest.run]
        elif manifest.run not in self._owing:
            self._owing.append(manifest.run)
        self._write_to_ledger()

    def _write_to_ledger(self) -> None:
        if self._ledger_failed:
            return
        while self._owing:
            run = self._owing[0]
            manifest = self._commit_log.read(run)
            fingerprint = "" if manifest.ledger is None else manifest.ledger.key
            if manifest.ledger_entries and fingerprint not in self._own_keys:
                self._ledger_failed = True
                self._warn(
                    f"run {run} and later ones are not in the ledger yet: run {run} was committed"
                    f" with the signing key {fingerprint}; load where that key is, or copy it from"
                    " there (`signing_key`)"
                )
                return
            chain = Chain(self._key) if self._key is not None and fingerprint else None
            try:
                write_entries(
                    self._brokers,
                    self._registry,
                    entries_of(manifest),
                    timestamp=manifest.committed,
                    chain=chain,
                )
            except (ClientError, SchemaError) as error:
                self._ledger_failed = True
                self._warn(f"run {run} and later ones are not in the ledger yet: {error}")
                return
            self._commit_log.mark_published(run)
            del self._owing[0]

    def _commit_offsets(self, manifest: Manifest) -> None:
        """Commits offsets so that Kafka's tools can show the loader's lag. Best effort."""
        consumed_offsets = {
            TopicPartition(topic.topic, partition.partition): Consumed(
                partition.next_offset, partition.leader_epoch
            )
            for topic in manifest.topics
            if topic.topic in self._topics
            for partition in topic.partitions
            if not partition.absent
        }
        try:
            commit_offsets(self._brokers, self._group, consumed_offsets)
        except ClientError as error:
            self._warn(f"offsets could not be committed to the brokers: {error}")
