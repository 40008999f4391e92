"""Numbers as Avro itself writes them, by each of the ways there are."""

from io import BytesIO

import pytest
from avro.io import BinaryEncoder
from hypothesis import given
from hypothesis import strategies as st

from ground.varints import (
    BLOCK,
    BLOCK_BITS,
    LOW,
    VARINTS,
    high_bytes,
    long_at,
    long_bytes,
    looked_up,
    next_size,
    size_of,
    unsigned_varint,
    write_long,
)

EDGES = [0, 1, 63, 64, BLOCK - 1, BLOCK, (1 << 20) - 1, 1 << 20, 1 << 27, 1 << 34, 2**63 - 1]
anything = st.sampled_from(EDGES) | st.integers(0, 2**63 - 1) | st.integers(0, 2**30)


def by_avro(number: int) -> bytes:
    out = BytesIO()
    BinaryEncoder(out).write_long(number)
    return out.getvalue()


@given(anything)
def test_a_long_is_avros(number: int) -> None:
    for each in (number, -number, ~number):
        assert long_bytes(each) == by_avro(each)
        data = b"before" + long_bytes(each) + b"\x80"
        assert long_at(data, 6) == long_at(memoryview(data), 6) == (each, len(data) - 1)


@given(anything)
def test_without_a_sign_it_is_half_of_it(number: int) -> None:
    assert unsigned_varint(2 * number) == long_bytes(number)


def test_what_breaks_off_or_never_ends_is_refused() -> None:
    for size in range(1, 10):
        with pytest.raises(IndexError):
            long_at(b"\x80" * size, 0)
    assert long_at(b"\x80" * 9 + b"\1", 0) == (2**62, 10)
    with pytest.raises(ValueError, match="more than ten bytes ends at byte 10"):
        long_at(b"\x80" * 11, 0)


def test_only_whole_numbers_are_written() -> None:
    class Whole:
        def __index__(self) -> int:
            return 300

    out = bytearray()
    write_long(out, Whole())
    assert out == long_bytes(300)
    for other in (True, 1.0, "1", None):
        with pytest.raises(TypeError):
            write_long(out, other)
    for number in (2**63, -(2**63) - 1):
        with pytest.raises(OverflowError):
            write_long(out, number)
    assert out == long_bytes(300)


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
