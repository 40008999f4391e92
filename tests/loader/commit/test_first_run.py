"""What a table's first run may find below the root, and what it may not."""

from pathlib import Path

import pytest

from loader.commit.history import check_untouched
from loader.errors import LoaderError
from loader.store.local import LocalStore


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(f"file://{tmp_path}")


def test_there_may_be_nothing(store: LocalStore) -> None:
    check_untouched(store, "clicks")


def test_what_readers_pass_over_may_be_there(store: LocalStore, tmp_path: Path) -> None:
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
    assert f"{store.root}/clicks has files already, such as {path}" in said
    assert f"no commit log at {store.root}/_penstock/clicks" in said
