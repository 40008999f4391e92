"""Arithmetic on columns, held against Python's."""

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from loader.landing.rows import (
    beginnings,
    bounds,
    counted,
    ends,
    numbers,
    positions,
)
from loader.tables import FIRST_TIME, HOUR_MILLIS, LAST_TIME

TIMES = st.lists(st.integers(FIRST_TIME, LAST_TIME), min_size=1, max_size=20)
LENGTHS = st.sampled_from([HOUR_MILLIS, 60_000, 1_000, 7_000])


@given(TIMES, LENGTHS)
def test_intervals_of_time(times: list[int], length: int) -> None:
    column = pa.array(times, pa.int64())
    expected = [time - time % length for time in times]
    assert beginnings(column, length).to_pylist() == expected
    assert bounds(column) == (min(times), max(times))
    assert counted(column, length, bounds(column)) == Counter(expected)


@given(st.lists(st.sampled_from("ab"), max_size=20))
def test_stretches_end_where_values_change(values: list[str]) -> None:
    found = [at for at in range(1, len(values)) if values[at] != values[at - 1]]
    expected = [*found, len(values)] if values else []
    assert ends(pa.array(values, pa.string())) == expected


def test_numbers_and_positions() -> None:
    assert numbers(100_000).to_pylist() == list(range(100_000))
    assert positions([(2, 4), (7, 7), (9, 10)], 10).to_pylist() == [2, 3, 9]
    assert positions([], 10).to_pylist() == []
