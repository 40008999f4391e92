"""The manifests of a table, what its first run may find, and what becomes of staged files."""

from pathlib import Path

import msgspec
import pytest

from loader.commit.commit_log import Attempt, CommitLog, check_untouched
from loader.errors import LoaderError, RunTaken, SparkFailed, StoreError
from loader.store.local import LocalStore
from loader.store.store import Store
from loader.values.manifests import Added, HourState
from tests.loader.commit.made_up import HOUR, manifest
from tests.loader.commit.stepping_store import At, SteppingStore, StoppedHere, stop


@pytest.fixture
def log(store: LocalStore) -> CommitLog:
    return CommitLog(store, "t")


def commit(log: CommitLog, *runs: int) -> None:
    """Wholly done."""
    for run in runs:
        log.commit(manifest(run))
        log.mark_visible(run)
        log.mark_published(run)


def test_the_newest_is_the_highest(log: CommitLog) -> None:
    assert (log.latest(), log.runs(), log.listed().unpublished) == (None, [], [])
    commit(log, *range(1, 12))
    assert log.runs() == list(range(1, 12))
    assert log.latest() == manifest(11)


def test_a_run_is_committed_once(log: CommitLog) -> None:
    commit(log, 1)
    with pytest.raises(RunTaken, match="another loader committed run 1 meanwhile"):
        log.commit(msgspec.structs.replace(manifest(1), loader="other"))
    assert log.latest() == manifest(1)


def test_a_run_is_committed_after_the_one_before_it_is_visible(log: CommitLog) -> None:
    log.commit(manifest(1))
    with pytest.raises(RunTaken, match="committed run 1, and is still making it visible"):
        log.commit(manifest(2))
    log.mark_visible(1)
    log.commit(manifest(2))
    assert log.listed().unpublished == [1, 2]


def test_what_could_not_be_read_again_is_not_written(store: LocalStore) -> None:
    size = len(msgspec.json.encode(manifest(1)))
    with pytest.raises(LoaderError, match=rf"run 1 would be {size} bytes long, and the l") as no:
        CommitLog(store, "t", most_bytes=size - 1).commit(manifest(1))
    assert not isinstance(no.value, StoreError)  # which would leave it open
    assert CommitLog(store, "t").runs() == []
    just = CommitLog(store, "t", most_bytes=size)
    just.commit(manifest(1))
    assert just.latest() == manifest(1)
    just.mark_visible(1)
    hours = {HOUR: HourState(rows=9, files=("x" * 300,))}
    with pytest.raises(LoaderError, match="open hours have too many files"):
        just.commit(manifest(2, hours=hours))


def test_a_number_that_was_forgotten_is_taken(log: CommitLog) -> None:
    asleep = CommitLog(log.store, "t")
    assert asleep.known().newest == 0
    commit(log, *range(1, 15))
    log.forget(10)
    assert log.runs() == list(range(5, 15))
    for run in (1, 3, 5, 14):
        with pytest.raises(RunTaken):
            asleep.commit(msgspec.structs.replace(manifest(run), loader="asleep for long"))


def test_what_is_owed_is_not_forgotten(log: CommitLog) -> None:
    for run in range(1, 15):
        log.commit(manifest(run))
        log.mark_visible(run)
        if run != 2:
            log.mark_published(run)
    log.forget(1)
    assert log.runs() == [2, *range(5, 15)]
    assert log.listed().unpublished == [2]
    assert max(log.listed().visible) == 14
    log.mark_published(2)
    log.forget(1)
    assert len(log.store.list("_penstock/t")) == 30


def test_forgetting_that_was_cut_short_goes_on(log: CommitLog) -> None:
    commit(log, *range(1, 13))
    log.store.delete("_penstock/t/manifest-1.json")
    assert log.listed().unpublished == []
    log.forget(10)
    assert len(log.store.list("_penstock/t")) == 30


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is damaged"),
        (b'{"version": 1', "is damaged"),
        (b'{"version": 1, "run": 3}', "is damaged"),
        (b'{"version": 3, "run": 3}', "written by a newer Penstock"),
        (msgspec.json.encode(manifest(2)), "it contains run 2 of table t"),
    ],
)
def test_what_cannot_be_understood_is_never_passed_over(
    log: CommitLog, content: bytes, says: str
) -> None:
    commit(log, 1, 2)
    log.store.create("_penstock/t/manifest-3.json", content)
    with pytest.raises(StoreError, match=says) as caught:
        log.latest()
    assert "manifest-3.json" in str(caught.value)


def test_other_files_are_no_runs(log: CommitLog) -> None:
    commit(log, 1)
    for name in ("manifest-.json", "manifest-2.json.tmp", "manifest-x.json", "published-x", "3"):
        log.store.create(f"_penstock/t/{name}", b"")
    assert log.runs() == [1]


FOLDER = "_penstock/t/staging/run-1-mine"
OTHER = "_penstock/t/staging/run-1-other"


def refuse() -> None:
    raise StoreError("the answer was lost")


@pytest.fixture
def staged(store: LocalStore) -> LocalStore:
    for folder in (FOLDER, OTHER):
        store.create(f"{folder}/pieces/part.parquet", b"rows")
    return store


def there(staged: Store) -> list[str]:
    return [entry.path for entry in staged.list("_penstock/t/staging")]


@pytest.mark.parametrize(
    ("error", "left"),
    [(SparkFailed, [OTHER]), (KeyboardInterrupt, [FOLDER, OTHER]), (StoppedHere, [FOLDER, OTHER])],
)
def test_a_failed_run_takes_its_files_along_and_a_process_that_ends_touches_nothing(
    staged: LocalStore, error: type[BaseException], left: list[str]
) -> None:
    with pytest.raises(error), Attempt(CommitLog(staged, "t"), FOLDER):
        raise error
    assert there(staged) == left


ADDED = Added(staged=f"{FOLDER}/pieces/part.parquet", path="t/a", hour=HOUR, rows=1, bytes=4)


@pytest.mark.parametrize(("adds", "left"), [((ADDED,), [FOLDER, OTHER]), ((), [OTHER])])
def test_files_of_a_run_that_has_happened_stay_unless_it_adds_none(
    staged: LocalStore, adds: tuple[Added, ...], left: list[str]
) -> None:
    log = CommitLog(staged, "t")
    with pytest.raises(SparkFailed), Attempt(log, FOLDER) as attempt:
        attempt.commit(msgspec.structs.replace(manifest(1), adds=adds))
        raise SparkFailed("in publishing")
    assert there(staged) == left
    assert log.runs() == [1]


@pytest.mark.parametrize("step", [0, 1])
def test_files_of_a_run_that_may_have_happened_stay(staged: LocalStore, step: int) -> None:
    log = CommitLog(SteppingStore(staged, At(step, refuse)), "t")
    with pytest.raises(StoreError), Attempt(log, FOLDER) as attempt:
        attempt.commit(manifest(1))
    assert there(staged) == [FOLDER, OTHER]


def test_a_run_that_was_refused_has_not_happened(staged: LocalStore) -> None:
    log = CommitLog(staged, "t")
    log.commit(msgspec.structs.replace(manifest(1), loader="other"))
    with pytest.raises(RunTaken), Attempt(log, FOLDER) as attempt:
        attempt.commit(manifest(1))
    assert there(staged) == [OTHER]
    too_long = CommitLog(staged, "t", most_bytes=10)
    too_long.mark_visible(1)
    with pytest.raises(LoaderError, match="and the limit is"), Attempt(too_long, OTHER) as attempt:
        attempt.commit(manifest(2))
    assert there(staged) == []


def test_what_went_wrong_is_said_and_not_what_followed(staged: LocalStore) -> None:
    away = CommitLog(SteppingStore(staged, At(0, refuse)), "t")
    with pytest.raises(SparkFailed, match="no executors"), Attempt(away, FOLDER):
        raise SparkFailed("no executors")
    with pytest.raises(StoppedHere), Attempt(away, FOLDER):
        stop()


def test_what_readers_pass_over_may_be_there(store: LocalStore, tmp_path: Path) -> None:
    check_untouched(store, "clicks")
    (tmp_path / "clicks/dt=2026-11-20/hour=07").mkdir(parents=True)
    store.create("clicks/dt=2026-11-20/hour=07/_SUCCESS", b"{}")
    store.create("clicks/.hidden/part.parquet", b"rows")
    store.create("_penstock/clicks/staging/run-1-a/part.parquet", b"rows")
    store.create("visits/dt=2026-11-20/hour=07/part.parquet", b"rows")
    check_untouched(store, "clicks")


@pytest.mark.parametrize("path", ["dt=2026-11-20/hour=07/part.parquet", "rows.csv", "a/b/c/d"])
def test_files_without_a_commit_log_are_not_added_to(store: LocalStore, path: str) -> None:
    store.create(f"clicks/{path}", b"rows")
    with pytest.raises(LoaderError) as caught:
        check_untouched(store, "clicks")
    said = str(caught.value)
    assert f"{store.root}/clicks already has files, such as {path}" in said
    assert f"no commit log at {store.root}/_penstock/clicks" in said
