"""What is committed becomes visible; what never was goes."""

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import msgspec
import pytest

from loader.commit.history import History
from loader.commit.publishing import clean, publish, restore_markers
from loader.errors import StoreError
from loader.manifests import Added, HourState, Manifest, Marker
from loader.store.local import LocalStore
from loader.tables import Hour
from tests.loader.commit.made_up import HOUR, NEXT_HOUR, manifest
from tests.loader.commit.stepping_store import At, SteppingStore

STAGING = "_penstock/t/staging"
AT = "t/dt=2026-11-20/hour=00"


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(f"file://{tmp_path}")


def added(name: str, hour: Hour = HOUR) -> Added:
    folder = AT if hour == HOUR else "t/dt=2026-11-20/hour=01"
    staged = f"{STAGING}/run-1-x/pieces/{name}"
    return Added(staged=staged, path=f"{folder}/{name}", hour=hour, rows=1, bytes=len(name))


def stage(store: LocalStore, *adds: Added) -> None:
    for each in adds:
        store.replace(each.staged, each.path.rpartition("/")[2].encode())


def committed(store: LocalStore, **fields: object) -> Manifest:
    made = msgspec.structs.replace(manifest(1), **fields)
    History(store, "t").commit(made)
    return made


def visible(store: LocalStore) -> list[str]:
    return [entry.path for entry in store.list_recursively("t")]


def test_files_come_and_their_staging_goes(store: LocalStore) -> None:
    adds = (added("a"), added("b"), added("c", NEXT_HOUR))
    stage(store, *adds)
    store.replace(f"{STAGING}/run-1-x/pieces/_SUCCESS", b"")
    made = committed(store, adds=adds)
    assert not History(store, "t").is_visible(1)
    publish(store, made)
    assert visible(store) == [f"{AT}/a", f"{AT}/b", "t/dt=2026-11-20/hour=01/c"]
    assert list(store.list(STAGING)) == []
    assert History(store, "t").is_visible(1)
    assert History(store, "t").unpublished() == [1]  # the ledger is still to be written


def test_it_can_be_repeated(store: LocalStore) -> None:
    adds = (added("a"), added("b"))
    stage(store, *adds)
    made = committed(store, adds=adds)
    store.rename(adds[0].staged, adds[0].path)
    publish(store, made)
    store.delete("_penstock/t/visible-1")
    publish(store, made)
    assert visible(store) == [f"{AT}/a", f"{AT}/b"]


def test_files_are_replaced(store: LocalStore) -> None:
    for name in ("old1", "old2"):
        store.replace(f"{AT}/{name}", b"")
    stage(store, added("new"))
    made = committed(store, adds=(added("new"),), removes=(f"{AT}/old1", f"{AT}/old2"))
    publish(store, made)
    assert visible(store) == [f"{AT}/new"]


def test_nothing_is_removed_before_its_replacement_is_there(store: LocalStore) -> None:
    store.replace(f"{AT}/old", b"rows")
    made = committed(store, adds=(added("new"),), removes=(f"{AT}/old",))
    with pytest.raises(StoreError, match="its 1 rows are committed, and the file is neither"):
        publish(store, made)
    assert visible(store) == [f"{AT}/old"]
    stage(store, added("new"))
    publish(store, made)
    assert visible(store) == [f"{AT}/new"]


def test_a_committed_file_that_is_lost_is_told(store: LocalStore) -> None:
    made = committed(store, adds=(added("a"),))
    with pytest.raises(StoreError, match="its 1 rows are committed"):
        publish(store, made)
    store.replace(f"{AT}/a", b"cut off: too long")
    with pytest.raises(StoreError, match="its 1 rows are committed"):
        publish(store, made)
    assert not History(store, "t").is_visible(1)


def test_markers_come_and_go(store: LocalStore) -> None:
    store.replace(f"{AT}/_INCOMPLETE", b"old")
    store.replace(f"{AT}/_SUCCESS", b"old")
    made = committed(
        store,
        markers=(
            Marker(path=f"{AT}/_INCOMPLETE"),
            Marker(path=f"{AT}/_SUCCESS", content="new"),
            Marker(path="t/dt=2026-11-20/hour=01/_INCOMPLETE", content="x"),
        ),
    )
    publish(store, made)
    assert visible(store) == [f"{AT}/_SUCCESS", "t/dt=2026-11-20/hour=01/_INCOMPLETE"]
    assert store.read(f"{AT}/_SUCCESS") == b"new"


def test_what_is_visible_is_left_as_it_is(store: LocalStore) -> None:
    """A later run may have changed it."""
    stage(store, added("a"))
    made = committed(store, adds=(added("a"),), markers=(Marker(path=f"{AT}/_SUCCESS"),))
    publish(store, made)
    store.delete(f"{AT}/a")
    store.replace(f"{AT}/_SUCCESS", b"")
    publish(store, made)
    assert visible(store) == [f"{AT}/_SUCCESS"]


def test_a_slow_loader_does_not_undo_what_a_later_run_says(store: LocalStore) -> None:
    stage(store, added("a"))
    made = committed(
        store, adds=(added("a"),), markers=(Marker(path=f"{AT}/_SUCCESS", content="old"),)
    )

    def others() -> None:
        publish(store, made)
        markers = (Marker(path=f"{AT}/_SUCCESS", content="new"),)
        later = msgspec.structs.replace(manifest(2), markers=markers)
        History(store, "t").commit(later)
        publish(store, later)

    publish(SteppingStore(store, At(0, others)), made)
    assert store.read(f"{AT}/_SUCCESS") == b"new"


class Syncing(SteppingStore):
    """Notes what is synced, and what is created."""

    def __init__(self, store: LocalStore) -> None:
        super().__init__(store, lambda: None)
        self._folder = Path(store.root.removeprefix("file://"))
        self.notes: list[str] = []

    def sync(self, paths: Iterable[str]) -> None:
        self.notes += [path for path in paths if (self._folder / path).exists()]

    def create(self, path: str, data: bytes) -> bool:
        self.notes.append(path)
        return super().create(path, data)


def test_what_a_power_loss_must_leave_is_synced_before_it_is_relied_on(store: LocalStore) -> None:
    stage(store, added("a"))
    store.replace("t/dt=2026-11-20/hour=01/old", b"rows")
    store.replace("t/dt=2026-11-20/hour=01/other", b"rows")
    syncing = Syncing(store)
    made = msgspec.structs.replace(
        manifest(1), adds=(added("a"),), removes=("t/dt=2026-11-20/hour=01/old",)
    )
    History(syncing, "t").commit(made)
    publish(syncing, made)
    assert syncing.notes == [
        f"{STAGING}/run-1-x/pieces/a",
        "_penstock/t/manifest-1.json",
        AT,
        "t/dt=2026-11-20/hour=01",
        "_penstock/t/visible-1",
    ]


def markers(store: LocalStore) -> dict[str, bytes | None]:
    return {entry.name: store.read(entry.path) for entry in store.list(AT) if entry.name[0] == "_"}


def test_whoever_hangs_anywhere_leaves_the_markers_of_the_newest_run(tmp_path: Path) -> None:
    """At each step, others make the run visible, go on, and open the hour again."""
    number = 0
    while True:
        store = LocalStore(f"file://{tmp_path}/{number}")
        stage(store, added("a"))
        store.replace(f"{AT}/_INCOMPLETE", b"old")
        made = committed(
            store,
            adds=(added("a"),),
            markers=(
                Marker(path=f"{AT}/_SUCCESS", content="complete"),
                Marker(path=f"{AT}/_INCOMPLETE"),
            ),
        )
        step = At(number, partial(opened_again, store, made))
        publish(SteppingStore(store, step, reading=True), made)
        if not step.reached:
            break
        assert markers(store) == {"_INCOMPLETE": b"open again"}, number
        number += 1
    assert number > 10
    assert markers(store) == {"_SUCCESS": b"complete"}


def opened_again(store: LocalStore, made: Manifest) -> None:
    publish(store, made)
    markers = (
        Marker(path=f"{AT}/_SUCCESS"),
        Marker(path=f"{AT}/_INCOMPLETE", content="open again"),
    )
    later = msgspec.structs.replace(manifest(2), markers=markers)
    History(store, "t").commit(later)
    publish(store, later)


def test_markers_are_what_the_newest_run_made_them(store: LocalStore) -> None:
    """Somebody who hung has written an old one, and died."""
    stage(store, added("a"))
    hours = {HOUR: HourState(rows=1, files=(f"{AT}/a",))}
    first = Marker(path=f"{AT}/_SUCCESS", content="complete")
    made = committed(store, adds=(added("a"),), markers=(first,), hours=hours)
    opened_again(store, made)
    history = History(store, "t")
    assert restore_markers(store, history, since=1) == []
    store.replace(f"{AT}/_SUCCESS", b"complete")
    store.delete(f"{AT}/_INCOMPLETE")
    store.replace(f"{AT}/_OTHER", b"not ours")
    wrong = [f"{AT}/_INCOMPLETE", f"{AT}/_SUCCESS"]
    assert restore_markers(store, history, since=1) == wrong
    assert markers(store) == {"_INCOMPLETE": b"open again", "_OTHER": b"not ours"}
    assert restore_markers(store, history, since=2) == []


def test_an_hour_that_somebody_took_away_does_not_come_back_by_its_markers(
    store: LocalStore,
) -> None:
    stage(store, added("a"))
    hours = {HOUR: HourState(rows=1, files=(f"{AT}/a",))}
    marker = Marker(path=f"{AT}/_SUCCESS", content="complete")
    publish(store, committed(store, adds=(added("a"),), markers=(marker,), hours=hours))
    store.delete(AT)
    assert restore_markers(store, History(store, "t"), since=1) == []
    assert visible(store) == []


def test_what_was_staged_for_runs_that_are_visible_is_removed(store: LocalStore) -> None:
    history = History(store, "t")
    for run in (1, 2):
        history.commit(manifest(run))
        history.mark_visible(run)
    history.commit(manifest(3))
    for run in (1, 2, 3, 4):
        store.replace(f"{STAGING}/run-{run}-x/pieces/a", b"")
    store.replace(f"{STAGING}/other/a", b"")
    clean(store, "t")
    left = ["other", "run-3-x", "run-4-x"]
    assert [entry.name for entry in store.list(STAGING)] == left


@pytest.mark.parametrize("before_first_run", [True, False])
def test_what_was_given_up_is_removed_after_a_day(
    store: LocalStore, tmp_path: Path, before_first_run: bool
) -> None:
    if not before_first_run:
        History(store, "t").commit(manifest(1))
    store.replace(f"{STAGING}/run-9-idle/pieces/kind=rows/a", b"")
    store.replace(f"{STAGING}/run-9-busy/pieces/kind=rows/a", b"")
    store.replace("_penstock/~creating/idle", b"")
    store.replace("_penstock/~creating/busy", b"")
    (tmp_path / STAGING / "run-9-empty").mkdir()
    busy = [
        tmp_path / STAGING / "run-9-busy/pieces/kind=rows/a",
        tmp_path / "_penstock/~creating/busy",
    ]
    now = busy[0].stat().st_mtime
    for path in tmp_path.glob("_penstock/**/*"):
        age = 0 if path in busy else 90_000
        os.utime(path, (now - age, now - age))
    clean(store, "t")
    assert [entry.name for entry in store.list(STAGING)] == ["run-9-busy"]
    assert [entry.name for entry in store.list("_penstock/~creating")] == ["busy"]


def refuse() -> None:
    raise StoreError("somebody writes there")


def test_what_cannot_be_cleaned_away_hinders_nobody(store: LocalStore) -> None:
    adds = (added("a"),)
    stage(store, *adds)
    made = committed(store, adds=adds)
    # After the file's renaming and the mark, what was staged is deleted.
    publish(SteppingStore(store, At(4, refuse)), made)
    assert History(store, "t").is_visible(1)
    assert [entry.name for entry in store.list(STAGING)] == ["run-1-x"]
    store.create(f"{STAGING}/run-1-y/pieces/b", b"")
    with pytest.raises(StoreError, match="somebody writes there"):
        clean(SteppingStore(store, At(0, refuse)), "t")
    assert [entry.name for entry in store.list(STAGING)] == ["run-1-x"]
    clean(store, "t")
    assert list(store.list(STAGING)) == []


def test_nothing_to_clean(store: LocalStore) -> None:
    clean(store, "t")
