"""Of each event it is known whether it arrived, and whether once."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.demo.figures import NO_NUMBER, arrivals


@given(st.lists(st.integers(-1, 12)), st.integers(0, 10))
def test_what_arrived_is_held_against_what_was_written(numbers: list[int], written: int) -> None:
    found = arrivals(numbers, written)
    counted = Counter(numbers)
    missing = {number for each in found.missing for number in each}
    assert (found.events, found.distinct) == (len(numbers), len(counted))
    assert missing == set(range(written)) - set(numbers)
    assert found.events_missing == len(missing)
    assert list(found.twice) == sorted(each for each in counted if counted[each] > 1)
    assert set(found.unknown) == set(numbers) - set(range(written))
    all_is_well = sorted(numbers) == list(range(written))
    assert (list(found.faults("landed")) == []) == all_is_well


def test_a_fault_has_words() -> None:
    def words(numbers: list[int], written: int) -> list[str]:
        return list(arrivals(numbers, written).faults("landed"))

    assert words([0, 1, 2], 3) == []
    assert words([0, 2], 3) == ["1 event was not landed: number 1"]
    assert words([], 1_500) == ["1,500 events were not landed: numbers 0 to 1,499"]
    assert words([1, 3, 5, 7], 9) == [
        "5 events were not landed: numbers 0, 2, 4 and 2 more",
    ]
    assert words([0, 1, 1, 1], 2) == ["landed more than once: number 1 (2 too many)"]
    assert words([0, 0, 1, 1], 2) == ["landed more than once: numbers 0, 1 (2 too many)"]
    assert words([0, 1, 4_000], 2) == ["landed, but never written: number 4,000"]
    assert words([0, NO_NUMBER], 1) == ["landed, but never written: an event without number"]
