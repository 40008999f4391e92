"""What becomes of what was staged for a run, by how it ends."""

from pathlib import Path

import msgspec
import pytest

from loader.commit.history import Attempt, History
from loader.errors import LoaderError, RunTaken, SparkFailed, StoreError
from loader.store.local import LocalStore
from loader.store.store import Store
from tests.loader.commit.made_up import manifest
from tests.loader.commit.stepping_store import At, SteppingStore, StoppedHere, stop

FOLDER = "_penstock/t/staging/run-1-mine"
OTHER = "_penstock/t/staging/run-1-other"


def refuse() -> None:
    raise StoreError("the answer was lost")


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    made = LocalStore(f"file://{tmp_path}")
    for folder in (FOLDER, OTHER):
        made.create(f"{folder}/pieces/part.parquet", b"rows")
    return made


def there(store: Store) -> list[str]:
    return [entry.path for entry in store.list("_penstock/t/staging")]


def test_what_comes_to_nothing_takes_its_files_along(store: LocalStore) -> None:
    failing = Attempt(History(store, "t"), FOLDER)
    with pytest.raises(SparkFailed), failing:
        raise SparkFailed("no executors")
    assert there(store) == [OTHER]


@pytest.mark.parametrize("error", [KeyboardInterrupt, StoppedHere])
def test_a_process_that_ends_touches_nothing(store: LocalStore, error: type[BaseException]) -> None:
    with pytest.raises(error), Attempt(History(store, "t"), FOLDER):
        raise error
    assert there(store) == [FOLDER, OTHER]


def test_files_of_a_run_that_has_happened_stay(store: LocalStore) -> None:
    history = History(store, "t")
    with pytest.raises(SparkFailed), Attempt(history, FOLDER) as attempt:
        attempt.commit(manifest(1))
        raise SparkFailed("in publishing")
    assert there(store) == [FOLDER, OTHER]
    assert history.runs() == [1]


@pytest.mark.parametrize("step", [0, 1])
def test_files_of_a_run_that_may_have_happened_stay(store: LocalStore, step: int) -> None:
    history = History(SteppingStore(store, At(step, refuse)), "t")
    with pytest.raises(StoreError), Attempt(history, FOLDER) as attempt:
        attempt.commit(manifest(1))
    assert there(store) == [FOLDER, OTHER]


def test_a_run_that_was_refused_has_not_happened(store: LocalStore) -> None:
    history = History(store, "t")
    history.commit(msgspec.structs.replace(manifest(1), loader="other"))
    with pytest.raises(RunTaken), Attempt(history, FOLDER) as attempt:
        attempt.commit(manifest(1))
    assert there(store) == [OTHER]
    too_long = History(store, "t", most_bytes=10)
    too_long.mark_visible(1)
    with pytest.raises(LoaderError, match="and at most"), Attempt(too_long, OTHER) as attempt:
        attempt.commit(manifest(2))
    assert there(store) == []


def test_what_went_wrong_is_said_and_not_what_followed(store: LocalStore) -> None:
    away = History(SteppingStore(store, At(0, refuse)), "t")
    with pytest.raises(SparkFailed, match="no executors"), Attempt(away, FOLDER):
        raise SparkFailed("no executors")
    with pytest.raises(StoppedHere), Attempt(away, FOLDER):
        stop()
