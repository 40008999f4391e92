"""Many sets at once are what each of them is alone."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from audit.store.folding.keyed_intervals import Keyed, grouped
from ground.intervals import Interval, Intervals, covers, intersection, merged

NUMBER = st.integers(0, 12) | st.sampled_from([2**52, 2**53])
ROWS = st.lists(st.tuples(st.integers(0, 3), NUMBER, NUMBER), max_size=14)


def keyed(rows: list[tuple[int, int, int]]) -> Keyed:
    columns = np.array(rows, np.int64).reshape(-1, 3)
    return Keyed(columns[:, 0], columns[:, 1], columns[:, 2])


def by_key(rows: list[tuple[int, int, int]]) -> dict[int, Intervals]:
    pairs: dict[int, list[Interval]] = {}
    for key, first, end in rows:
        pairs.setdefault(key, []).append((first, end))
    return {key: found for key, each in sorted(pairs.items()) if (found := merged(each))}


@given(ROWS)
def test_united_is_the_union_of_each(rows: list[tuple[int, int, int]]) -> None:
    united = keyed(rows).united()
    keys, packed = united.packed()
    assert by_key(list(zip(united.key, united.first, united.end, strict=True))) == by_key(rows)
    assert keys.tolist() == list(by_key(rows))
    again = Keyed.of_packed(keys, packed)
    assert again.key.tolist() == united.key.tolist()
    assert again.first.tolist() == united.first.tolist()
    assert again.end.tolist() == united.end.tolist()


@given(ROWS, ROWS)
def test_covered_and_overlapping(
    rows: list[tuple[int, int, int]], others: list[tuple[int, int, int]]
) -> None:
    sets = by_key(rows)
    asked = [row for row in others if row[1] < row[2]]
    united = keyed(rows).united()
    assert united.cover(keyed(asked)).tolist() == [
        covers(sets.get(key, ()), ((first, end),)) for key, first, end in asked
    ]
    assert united.overlap(keyed(asked)).tolist() == [
        bool(intersection(sets.get(key, ()), ((first, end),))) for key, first, end in asked
    ]


@given(ROWS)
def test_grouped_by_all_columns(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array([row[at] for row in rows], np.int64) for at in range(3)]
    together = grouped(columns[0], columns[1], then=(columns[2],))
    keys = sorted({row[:2] for row in rows})
    assert list(zip(*(key.tolist() for key in together.keys), strict=True)) == keys
    mine = [[row[2] for row in rows if row[:2] == key] for key in keys]
    assert together.sums(columns[2]).tolist() == [sum(each) for each in mine]
    assert together.most(columns[2]).tolist() == [max(each) for each in mine]
    assert together.least(columns[2]).tolist() == [min(each) for each in mine]
    assert columns[2][together.last()].tolist() == [max(each) for each in mine]
    assert [keys[each] for each in together.numbered().tolist()] == [row[:2] for row in rows]
