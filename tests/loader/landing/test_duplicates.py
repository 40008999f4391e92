"""What a slice remembers of its events, and when it stops to."""

import random

import pytest

from loader.landing.duplicates import Duplicates
from loader.landing.rows import Arrived
from tests.loader.landing.decoded_batches import EPOCH, START, Event, decoded, in_order


def arrived(events: list[Event]) -> Arrived:
    batch = decoded(events)
    assert batch.rows is not None
    return Arrived(batch.rows, batch.times, batch.sources, batch.seqs)


def offsets(rows: Arrived) -> list[int]:
    found: list[int] = rows.rows.column("_offset").to_pylist()
    return found


def test_a_run_that_is_new_is_not_copied() -> None:
    rows = arrived(in_order(100))
    assert Duplicates({}).new(rows) is rows


def test_events_that_say_not_which_they_are_are_all_new() -> None:
    batch = decoded(in_order(10), named=False)
    assert batch.rows is not None
    rows = Arrived(batch.rows, batch.times, None, None)
    duplicates = Duplicates({"a/1": ((0, 5),)})
    assert duplicates.new(rows) is rows
    assert duplicates.runs(EPOCH) == ()


def test_what_is_dropped_is_not_kept_in_memory() -> None:
    rows = arrived(in_order(1000))
    kept = Duplicates({"a/1": ((0, 989),)}).new(rows)
    assert offsets(kept) == list(range(990, 1000))
    assert kept.rows.get_total_buffer_size() < rows.rows.get_total_buffer_size() / 10


@pytest.mark.parametrize("shuffled", [False, True])
def test_the_first_of_equals_is_the_one_that_lands(shuffled: bool) -> None:
    """In runs, and sorted where there are hardly any."""
    places = [divmod(at, 5)[::-1] if shuffled else divmod(at, 20) for at in range(100)]
    events = [Event(at, START + at, f"a/{each[0]}", each[1]) for at, each in enumerate(places)]
    again = [each._replace(offset=100 + each.offset) for each in events]
    duplicates = Duplicates({})
    assert offsets(duplicates.new(arrived(events + again))) == list(range(100))
    assert offsets(duplicates.new(arrived(again))) == []
    found = {run.source: run.intervals for run in duplicates.runs(EPOCH)}
    assert found == {f"a/{at}": ((0, 19),) for at in range(5)}


def test_numbers_at_the_end_of_what_there_are() -> None:
    """A foreign producer may count as it likes."""
    largest = (1 << 63) - 1
    seqs = [largest - 1, largest, largest, -largest - 1, 0, 8]
    events = [Event(at, START, "a/1", seq) for at, seq in enumerate(seqs)]
    duplicates = Duplicates({"a/1": 8})
    assert offsets(duplicates.new(arrived(events))) == [0, 1, 3, 5]
    (run,) = duplicates.runs(EPOCH)
    assert run.intervals == ((8, 8), (largest - 1, largest))


@pytest.mark.parametrize(("source", "seq"), [("", 0), ("", 7), ("app-1", -1), ("", -1)])
@pytest.mark.parametrize("among", [0, 3, 100])
def test_whoever_does_not_number_its_events_loses_none(source: str, seq: int, among: int) -> None:
    """Alone, and among others that come twice."""
    alike = [Event(at, START + at, source, seq) for at in range(0, 400, 2)]
    others = [Event(2 * at + 1, START, "a/1", at // 2) for at in range(among)]
    duplicates = Duplicates({"": 10, "app-1": ((-5, 5),)})
    found = offsets(duplicates.new(arrived(sorted(alike + others))))
    assert found == sorted([*range(0, 400, 2), *(each.offset for each in others[::2])])
    assert [run.source for run in duplicates.runs(EPOCH)] == (["a/1"] if among else [])
    assert duplicates.most_repeated == ("a/1" if among else "")


def test_the_source_with_most_duplicates_is_named() -> None:
    duplicates = Duplicates({"a/1": 4, "b/1": 6})
    duplicates.new(arrived(in_order(10) + in_order(10, source="b/1", offset=10)))
    assert duplicates.most_repeated == "b/1"
    duplicates.new(arrived(in_order(3)))
    assert duplicates.most_repeated == "a/1"


def test_a_source_with_too_many_gaps_is_scattered() -> None:
    """Its events are new from then on, but for those that had landed before."""
    duplicates = Duplicates({"a/1": ((1000, 1009),)}, most_intervals=3)
    gaps = [Event(at, START, "a/1", at * 2) for at in range(5)]
    assert offsets(duplicates.new(arrived(gaps))) == [0, 1, 2, 3, 4]
    assert duplicates.scattered == ("a/1",)
    assert offsets(duplicates.new(arrived(gaps))) == [0, 1, 2, 3, 4]
    assert offsets(duplicates.new(arrived(in_order(10, first=1000)))) == []
    assert duplicates.runs(EPOCH) == ()


def test_too_many_sources_are_not_tracked() -> None:
    duplicates = Duplicates({"new/9": ((0, 0),)}, most_tracked=4)
    events = [Event(at, START + at, f"new/{at}", 0) for at in range(10)]
    assert offsets(duplicates.new(arrived(events))) == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert duplicates.untracked == 5
    assert [run.source for run in duplicates.runs(EPOCH)] == ["new/0", "new/1", "new/2", "new/3"]
    # Those that are tracked are still known.
    assert offsets(duplicates.new(arrived(events[:5]))) == [4]


def test_what_is_remembered_is_bounded_whatever_comes() -> None:
    random_numbers = random.Random(1)
    duplicates = Duplicates({}, most_intervals=20, most_tracked=50)
    for _ in range(40):
        events = [
            Event(at, START, f"a/{random_numbers.randrange(100)}", random_numbers.randrange(1000))
            for at in range(200)
        ]
        duplicates.new(arrived(events))
    remembered = sum(len(run.intervals) for run in duplicates.runs(EPOCH))
    assert remembered + len(duplicates.scattered) <= 50
