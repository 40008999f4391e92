"""What a committed run still owes: its files made visible, its part of the ledger, offsets for the
brokers. All of it can be repeated, and is, until the run is marked as published: by this load, or,
if it is cut short, by the next.

Markers that no longer hold go first. Then, hour by hour, the files that others replace go, the new
ones come, and the markers that hold now. So rows of an hour may be missing for a moment, and never
are there twice. Nothing is taken away before what replaces it is known to be there.

Cut short at any step, by whatever it is, this is done again from the start, by the next who comes;
and two may do it at the same time. A name is never used for another file, so neither undoes what
the other has done. Only markers change: whoever hangs while others go on to later runs may write
one that no longer holds, finds that out, and puts it right; if it dies first, the next load does.

Files never wait for the ledger. Its entries come in the order of the runs: what it does not take
now stops those behind it, and is not tried again in the same load.
"""

import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final

from client.brokers import Brokers
from client.delivery import TopicPartition
from client.errors import ClientError
from client.offset_commits import Consumed, commit_offsets
from ledger.publishing import write_entries
from loader.commit.history import History
from loader.commit.layout import run_folder_of, run_of_folder, staging
from loader.errors import StoreError
from loader.ledger.entries import entries_of
from loader.manifests import Added, Manifest, Marker
from loader.store.store import CREATING, Entry, Store
from schemas.errors import SchemaError
from schemas.registry_client import RegistryClient

ABANDONED_MILLIS: Final = 86_400_000


def publish(store: Store, manifest: Manifest) -> None:
    """Raises StoreError; then it is to be done again.

    Once the run is visible, whoever made it so, later ones may have changed its hours.
    """
    history = History(store, manifest.table)
    if history.is_visible(manifest.run):
        return
    try:
        _publish(store, history, manifest)
    except StoreError:
        if not history.is_visible(manifest.run):
            raise
    if history.is_visible(manifest.run):
        restore_markers(store, history, since=manifest.run)
        return
    history.mark_visible(manifest.run)
    for folder in sorted({run_folder_of(added.staged) for added in manifest.adds}):
        with suppress(StoreError):  # it is visible all the same, and cleaned away by the next
            store.delete(folder)


def restore_markers(store: Store, history: History, *, since: int) -> list[str]:
    """Makes markers what the newest run that speaks of them says, as far as any since this one
    does. Returns those that were something else."""
    restored: list[str] = []
    while True:
        manifests = [history.read(run) for run in history.runs() if run >= since]
        if not manifests:
            return restored
        newest = manifests[-1]
        publish(store, newest)
        wrong = _wrong_markers(store, manifests)
        for marker in wrong:
            _mark(store, marker)
        restored += [marker.path for marker in wrong]
        # Of a run that came meanwhile, this may have undone a marker.
        if not wrong or history.runs()[-1] == newest.run:
            return restored


def clean(store: Store, table: str, *, abandoned_after: int = ABANDONED_MILLIS) -> None:
    """Removes what runs have left that never came to be.

    Another loader may be at work on the next run: what it writes is left alone, unless it is a day
    old by the store's own clock. A host whose clock is a day wrong would else take away what
    another has committed and is about to publish. What was written for a run that is visible is
    nothing any more, though a loader that has not heard of that may still write there. Raises
    StoreError if something is left, once all has been tried: a later one does it, and nobody needs
    to wait for that.
    """
    left: StoreError | None = None
    for path in _left_over(store, table, abandoned_after):
        try:
            store.delete(path)
        except StoreError as error:
            left = left or error
    if left is not None:
        raise left


def _left_over(store: Store, table: str, abandoned_after: int) -> Iterator[str]:
    visible = History(store, table).newest_visible()
    unsure: list[Entry] = []
    for entry in store.list(staging(table)):
        run = run_of_folder(entry.name)
        if run is not None and run <= visible:
            yield entry.path
        elif run is not None:
            unsure.append(entry)
    unsure.extend(store.list(CREATING))
    if not unsure:
        return
    latest = _time_at(store) - abandoned_after
    for entry in unsure:
        if _last_written(store, entry) < latest:
            yield entry.path


def _time_at(store: Store) -> int:
    """What the store's clock shows: the time of a file that is written now. Milliseconds."""
    path = f"{CREATING}/{uuid.uuid4().hex}"
    store.replace(path, b"")
    found = [entry.modified for entry in store.list(CREATING) if entry.path == path]
    store.delete(path)
    if not found:
        raise StoreError(f"{store.uri(path)} was written, and is not listed")
    return found[0]


def _publish(store: Store, history: History, manifest: Manifest) -> None:
    """Ends early once others have made the run visible."""
    adds: dict[str, list[Added]] = defaultdict(list)
    removes: dict[str, list[str]] = defaultdict(list)
    markers: dict[str, list[Marker]] = defaultdict(list)
    for added in manifest.adds:
        adds[_folder(added.path)].append(added)
    for path in manifest.removes:
        removes[_folder(path)].append(path)
    for marker in manifest.markers:
        if marker.written:
            markers[_folder(marker.path)].append(marker)
        elif history.is_visible(manifest.run):
            return
        else:
            _mark(store, marker)
    for folder in sorted({*adds, *removes, *markers}):
        _publish_folder(store, adds[folder], removes[folder])
        if markers[folder] and history.is_visible(manifest.run):
            return
        for marker in markers[folder]:
            _mark(store, marker)
    store.sync(sorted({*adds, *removes}))


def _publish_folder(store: Store, adds: Sequence[Added], removes: Sequence[str]) -> None:
    if removes:
        for added in adds:
            _check_there(store, added)
    for path in removes:
        store.delete(path)
    for added in adds:
        if not store.rename(added.staged, added.path):
            _check_there(store, added)


def _check_there(store: Store, added: Added) -> None:
    """In one of its two places."""
    if added.bytes not in (store.size(added.staged), store.size(added.path)):
        raise StoreError(
            f"{store.uri(added.path)}: its {added.rows:,} rows are committed, and the file is"
            f" neither there nor at {added.staged}"
        )


def _mark(store: Store, marker: Marker) -> None:
    if marker.written:
        store.replace(marker.path, marker.written)
    else:
        store.delete(marker.path)


def _wrong_markers(store: Store, manifests: Sequence[Manifest]) -> list[Marker]:
    """Not those of hours whose files somebody has taken away."""
    said = {marker.path: marker for manifest in manifests for marker in manifest.markers}
    folders = {_folder(path) for path in said}
    had_files = {
        folder
        for state in manifests[-1].hours.values()
        for path in state.files
        if (folder := _folder(path)) in folders
    }
    gone = {folder for folder in had_files if not store.list(folder)}
    return [
        marker
        for path, marker in sorted(said.items())
        if _folder(path) not in gone and (store.read(path) or b"") != marker.written
    ]


def _last_written(store: Store, entry: Entry) -> int:
    """When something in it was, or the file itself."""
    if not entry.is_folder:
        return entry.modified
    inside = [*store.list(entry.path), *store.list_recursively(entry.path)]
    return max([entry.modified, *(each.modified for each in inside)])


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


class Publication:
    """Of one table, in one load."""

    def __init__(
        self,
        history: History,
        brokers: Brokers,
        registry: RegistryClient,
        *,
        topics: Collection[str],
        group: str,
        doing: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        """`topics` are those that the table is fed by now. `doing` hears what comes now, `warn`
        what somebody should know, in words."""
        self._history = history
        self._brokers = brokers
        self._registry = registry
        self._topics = topics
        self._group = group
        self._doing = doing
        self._warn = warn
        self._ledger_is_away = False
        self.rolled_forward: int | None = None  # a run that had been cut short, and is visible now

    def make_up(self) -> None:
        """For runs that were cut short, and those that the ledger has not taken yet."""
        runs = self._history.runs()
        if runs:
            self._make_up(runs[-1])
            self._restore_markers(runs[-1])

    def _make_up(self, newest: int) -> None:
        owing = [run for run in self._history.unpublished() if run <= newest]
        if not owing:
            return
        self._doing(f"making up for run {owing[0]}")
        if newest not in owing:
            self._tell_ledger(owing)
            return
        # None is committed before the one before it is visible: this may be the only one.
        was_visible = self._history.is_visible(newest)
        self.publish(self._history.read(newest))
        if not was_visible:
            self.rolled_forward = newest

    def _restore_markers(self, newest: int) -> None:
        """Of what the load before this one did: it may have been two runs."""
        for path in restore_markers(self._history.store, self._history, since=newest - 1):
            self._warn(f"{path} was not what the newest run had made it; it is again")

    def publish(self, manifest: Manifest) -> None:
        """The newest there is."""
        self._doing(f"publishing run {manifest.run}")
        publish(self._history.store, manifest)
        self._tell_brokers(manifest)
        if not manifest.ledger_entries:
            self._history.mark_published(manifest.run)
        # Another loader may have gone on: what it has committed is not visible yet.
        owing = [run for run in self._history.unpublished() if run <= manifest.run]
        self._tell_ledger(owing, {manifest.run: manifest})

    def _tell_ledger(
        self, owing: Sequence[int], at_hand: Mapping[int, Manifest] = MappingProxyType({})
    ) -> None:
        if self._ledger_is_away:
            return
        for run in owing:
            manifest = at_hand.get(run) or self._history.read(run)
            try:
                write_entries(
                    self._brokers,
                    self._registry,
                    entries_of(manifest),
                    timestamp=manifest.committed,
                )
            except (ClientError, SchemaError) as error:
                self._ledger_is_away = True
                self._warn(f"run {run} is not in the ledger yet, and none after it: {error}")
                return
            self._history.mark_published(run)

    def _tell_brokers(self, manifest: Manifest) -> None:
        """So that Kafka's own tools see how far behind the loader is. Nobody relies on it."""
        consumed = {
            TopicPartition(topic.topic, each.partition): Consumed(
                each.next_offset, each.leader_epoch
            )
            for topic in manifest.topics
            if topic.topic in self._topics
            for each in topic.partitions
            if not each.absent
        }
        try:
            commit_offsets(self._brokers, self._group, consumed)
        except ClientError as error:
            self._warn(f"consumed offsets could not be told to the brokers: {error}")
