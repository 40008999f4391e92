"""Ranges as they are typed, or copied from a verdict."""

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.report.operator import BytesType, NumbersType

NUMBERS, BYTES = NumbersType(), BytesType()


@pytest.mark.parametrize(
    "text", ["4711-4722", "4,711-4,722", "4,711 to 4,722", "4711 - 4722", "4711–4722"]
)
def test_a_range_of_offsets_includes_its_last(text: str) -> None:
    assert NUMBERS.convert(text, None, None) == (4711, 4723)
    assert BYTES.convert(text, None, None) == (4711, 4722)


def test_a_single_one() -> None:
    assert NUMBERS.convert("7", None, None) == (7, 8)
    with pytest.raises(click.BadParameter):
        BYTES.convert("7", None, None)


@pytest.mark.parametrize(
    "text",
    ["", "-", "5-4", "-5", "1-2-3", "a-b", "1e3", "0x10", "٣-٤", "9" * 5_000, f"5-{2**63 - 1}"],
)
def test_no_range(text: str) -> None:
    with pytest.raises(click.BadParameter):
        NUMBERS.convert(text, None, None)


@given(st.integers(0, 2**62 - 1), st.integers(0, 2**40))
def test_what_is_shown_can_be_typed(first: int, more: int) -> None:
    last = min(first + more, 2**62 - 1)
    found = NUMBERS.convert(f"{first:,} to {last:,}", None, None)
    assert (found.first, found.end, found.size) == (first, last + 1, last + 1 - first)


@given(st.text())
def test_whatever_is_typed(text: str) -> None:
    for kind in (NUMBERS, BYTES):
        try:
            found = kind.convert(text, None, None)
        except click.BadParameter:
            continue
        assert 0 <= found.first < found.end <= 2**62
