"""The manifests of a table."""

from pathlib import Path

import msgspec
import pytest

from loader.commit.history import History
from loader.errors import LoaderError, RunTaken, StoreError
from loader.manifests import HourState
from loader.store.local import LocalStore
from tests.loader.commit.made_up import HOUR, manifest


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(LocalStore(f"file://{tmp_path}"), "t")


def commit(history: History, *runs: int) -> None:
    """Wholly done."""
    for run in runs:
        history.commit(manifest(run))
        history.mark_visible(run)
        history.mark_published(run)


def test_before_the_first_run(history: History) -> None:
    assert history.latest() is None
    assert history.runs() == []
    assert history.unpublished() == []


def test_the_newest_is_the_highest(history: History) -> None:
    commit(history, *range(1, 12))
    assert history.runs() == list(range(1, 12))
    assert history.latest() == manifest(11)


def test_a_run_is_committed_once(history: History) -> None:
    commit(history, 1)
    with pytest.raises(RunTaken, match="another loader has committed run 1 meanwhile"):
        history.commit(msgspec.structs.replace(manifest(1), loader="other"))
    assert history.latest() == manifest(1)


def test_a_run_is_committed_after_the_one_before_it_is_visible(history: History) -> None:
    history.commit(manifest(1))
    with pytest.raises(RunTaken, match="committed run 1, and is still making it visible"):
        history.commit(manifest(2))
    history.mark_visible(1)
    history.commit(manifest(2))
    assert history.unpublished() == [1, 2]


def test_what_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    store = LocalStore(f"file://{tmp_path}")
    size = len(msgspec.json.encode(manifest(1)))
    with pytest.raises(LoaderError, match=rf"run 1 would be {size} bytes long, and at most") as no:
        History(store, "t", most_bytes=size - 1).commit(manifest(1))
    assert not isinstance(no.value, StoreError)  # which would leave it open
    assert History(store, "t").runs() == []
    just = History(store, "t", most_bytes=size)
    just.commit(manifest(1))
    assert just.latest() == manifest(1)


def test_what_makes_a_manifest_too_long_is_said(tmp_path: Path) -> None:
    history = History(LocalStore(f"file://{tmp_path}"), "t", most_bytes=200)
    hours = {HOUR: HourState(rows=9, files=("x" * 300,))}
    with pytest.raises(LoaderError, match="hours that are open have too many files"):
        history.commit(manifest(1, hours=hours))


def test_a_number_that_was_forgotten_is_taken(history: History) -> None:
    commit(history, *range(1, 15))
    history.forget(10)
    assert history.runs() == list(range(5, 15))
    for run in (1, 3, 5, 14):
        with pytest.raises(RunTaken):
            history.commit(msgspec.structs.replace(manifest(run), loader="asleep for long"))


def test_what_is_owed_is_not_forgotten(history: History) -> None:
    for run in range(1, 15):
        history.commit(manifest(run))
        history.mark_visible(run)
        if run != 2:
            history.mark_published(run)
    history.forget(1)
    assert history.runs() == [2, *range(5, 15)]
    assert history.unpublished() == [2]
    assert history.newest_visible() == 14
    history.mark_published(2)
    history.forget(1)
    assert len(history.store.list("_penstock/t")) == 30


def test_forgetting_that_was_cut_short_goes_on(history: History) -> None:
    commit(history, *range(1, 13))
    history.store.delete("_penstock/t/manifest-1.json")
    assert history.unpublished() == []
    history.forget(10)
    assert len(history.store.list("_penstock/t")) == 30


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is damaged"),
        (b'{"version": 1', "is damaged"),
        (b'{"version": 1, "run": 3}', "is damaged"),
        (b'{"version": 2, "run": 3}', "written by a newer Penstock"),
        (msgspec.json.encode(manifest(2)), "it says it is run 2 of table t"),
    ],
)
def test_what_cannot_be_understood_is_never_passed_over(
    history: History, content: bytes, says: str
) -> None:
    commit(history, 1, 2)
    history.store.create("_penstock/t/manifest-3.json", content)
    with pytest.raises(StoreError, match=says) as caught:
        history.latest()
    assert "manifest-3.json" in str(caught.value)


def test_other_files_are_no_runs(history: History) -> None:
    commit(history, 1)
    for name in ("manifest-.json", "manifest-2.json.tmp", "manifest-x.json", "published-x", "3"):
        history.store.create(f"_penstock/t/{name}", b"")
    assert history.runs() == [1]
