"""Batches that wait for a later load, in a file of the table."""

from pathlib import Path

import pytest

from loader.digests.comparison import Log
from loader.digests.waiting import MOST_BATCHES, MOST_MILLIS, WaitingBatches, path_of
from loader.store.local import LocalStore
from loader.values.batch_digests import ReadBatch

LOG, OTHER = Log("clicks", "", 0), Log("clicks", "", 1)
NOW = 1_763_622_000_000


def batch(first: int, content: bytes = b"a") -> ReadBatch:
    return ReadBatch(first, first + 10, NOW, NOW, content * 32)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(f"file://{tmp_path}")


def test_what_waits_is_there_in_the_next_load(store: LocalStore) -> None:
    first = WaitingBatches(store, "clicks")
    first.read(LOG, (0, 30), [batch(0), batch(10), batch(20)], NOW)
    first.read(OTHER, (0, 10), [batch(0)], NOW)
    assert first.keep({LOG: [batch(10), batch(20)], OTHER: [batch(0)]}, NOW) == 0
    second = WaitingBatches(store, "clicks")
    assert (set(second.of(LOG)), set(second.of(OTHER))) == (
        {batch(10), batch(20)},
        {batch(0)},
    )
    assert second.keep({}, NOW) == 0
    assert store.read(path_of("clicks")) is None


def test_what_is_read_again_replaces_what_an_earlier_load_has_read(store: LocalStore) -> None:
    """The run of that load was not committed."""
    batches = WaitingBatches(store, "clicks")
    batches.read(LOG, (0, 30), [batch(0), batch(10), batch(20)], NOW)
    batches.read(LOG, (10, 40), [batch(10, b"b"), batch(30)], NOW + 1)
    assert sorted(batches.of(LOG)) == [batch(0), batch(10, b"b"), batch(30)]


def test_it_is_bounded(store: LocalStore) -> None:
    """By a day, and by a number, of which the newest stay."""
    batches = WaitingBatches(store, "clicks")
    old, new = [batch(0)], [batch(10 * at) for at in range(1, MOST_BATCHES + 2)]
    batches.read(LOG, (0, 10), old, NOW)
    batches.read(OTHER, (0, 10), old, NOW + 1)
    batches.read(LOG, (10, new[-1].end), new, NOW + 2)
    everything = {LOG: [*old, *new], OTHER: old}
    assert batches.keep({LOG: old, OTHER: old}, NOW + MOST_MILLIS + 1) == 1
    assert list(WaitingBatches(store, "clicks").of(OTHER)) == old
    assert batches.keep(everything, NOW + 2) == 3
    assert list(WaitingBatches(store, "clicks").of(LOG)) == new[1:]


@pytest.mark.parametrize("data", [b"\xc1", b"\x82", b"{}"])
def test_a_damaged_file_counts_as_none(store: LocalStore, data: bytes) -> None:
    store.replace(path_of("clicks"), data)
    batches = WaitingBatches(store, "clicks")
    assert list(batches.of(LOG)) == []
    batches.read(LOG, (0, 10), [batch(0)], NOW)
    batches.keep({LOG: [batch(0)]}, NOW)
    assert list(WaitingBatches(store, "clicks").of(LOG)) == [batch(0)]
