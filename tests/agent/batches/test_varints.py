"""Tables of numbers against the one way to write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.batches.varints import (
    BLOCK,
    BLOCK_BITS,
    LOW,
    VARINTS,
    high_bytes,
    long_bytes,
    looked_up,
    next_size,
    size_of,
)

EDGES = [0, 1, 63, 64, BLOCK - 1, BLOCK, (1 << 20) - 1, 1 << 20, 1 << 27, 1 << 34, 2**63 - 1]
anything = st.sampled_from(EDGES) | st.integers(0, 2**63 - 1) | st.integers(0, 2**30)


@given(anything)
def test_a_number_is_written_alike_everywhere(number: int) -> None:
    assert VARINTS[number] == long_bytes(number)
    assert VARINTS[-number] == long_bytes(-number)
    assert size_of(number) == len(long_bytes(number))
    if number >= BLOCK:
        low, high = LOW[number & BLOCK - 1], high_bytes(number >> BLOCK_BITS)
        assert low + high == long_bytes(number)


@given(
    st.lists(st.integers(0, 2**14) | st.integers(0, 2**24), min_size=1)
    | st.lists(anything, min_size=1)
)
def test_a_column_is_looked_up_number_by_number(numbers: list[int]) -> None:
    assert looked_up(numbers, max(numbers)) == [long_bytes(number) for number in numbers]


@given(anything)
def test_the_next_size_is_the_next(number: int) -> None:
    limit = next_size(number)
    assert size_of(limit - 1) == size_of(number)
    assert limit == 2**63 or size_of(limit) == size_of(number) + 1


def test_the_table_does_not_grow_and_takes_no_more_than_64_bits() -> None:
    entries = len(VARINTS)
    assert VARINTS[2**40]
    assert len(VARINTS) == entries
    for number in (2**63, -(2**63) - 1):
        with pytest.raises(OverflowError):
            VARINTS[number]
