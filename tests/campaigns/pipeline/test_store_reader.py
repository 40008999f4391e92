"""Each landed line is found once, also where small files of an hour were merged meanwhile."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.campaigns.pipeline.lines import Awaited, StoreReader

HOUR = Path("t/dt=2026-01-01/hour=01")
LINES = ["one", "two", "three"]


class Store:
    def __init__(self, root: Path) -> None:
        self.hour = root / HOUR
        self.hour.mkdir(parents=True)
        self.awaited = Awaited("the store")
        self.awaited.expect(LINES)
        self.reader = StoreReader(root, "t", self.awaited)

    def land(self, name: str, lines: Sequence[str]) -> Path:
        count = len(lines)
        columns = {
            "source": ["s"] * count,
            "seq": [*range(count)],
            "position": [0] * count,
            "_offset": [*range(count)],
            "message": [*lines],
        }
        path = self.hour / f"{name}.parquet"
        pq.write_table(pa.table(columns), path)
        return path

    def objections(self) -> list[str]:
        self.reader.read()
        return [*self.awaited.objections(), *self.reader.objections()]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


@pytest.mark.parametrize("read_before", [True, False])
def test_files_that_are_merged_have_their_lines_once(store: Store, read_before: bool) -> None:
    """Also if one of them had not been read before it was gone."""
    small = [store.land("part-1", LINES[:2])]
    store.reader.read()
    small.append(store.land("part-2", LINES[2:]))
    if read_before:
        store.reader.read()
    store.land("part-merged-1", LINES)
    for path in small:
        path.unlink()
    assert store.objections() == []
    assert store.awaited.found == len(LINES)


def test_what_a_merged_file_lacks_is_gone(store: Store) -> None:
    small = store.land("part-1", LINES)
    store.reader.read()
    store.land("part-merged-1", LINES[:2])
    small.unlink()
    assert store.objections() == ["in the store: 1 lines of hour=01 are gone again"]


def test_a_small_file_that_stays_beside_the_merged_one_has_its_lines_twice(store: Store) -> None:
    store.land("part-1", LINES)
    store.reader.read()
    store.land("part-merged-1", LINES)
    assert store.objections() == ["in the store: 3 lines of hour=01 are in two files"]


def test_a_file_that_changes_is_named(store: Store) -> None:
    path = store.land("part-1", LINES)
    store.reader.read()
    path.write_bytes(path.read_bytes() + b" ")
    assert store.objections() == [
        "in the store: part-1.parquet is not what it was when it was read"
    ]


def test_a_line_that_lands_twice_is_named(store: Store) -> None:
    store.land("part-1", LINES)
    store.land("part-2", LINES[:1])
    assert any("there twice, or never written: one" in each for each in store.objections())
