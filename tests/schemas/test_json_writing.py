"""Numbers and strings, spelled as Java 17 spells them, but for what is noted."""

import json
import math
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.definitions.json_writing import as_float, quoted, written


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (-12345678.9, "-1.23456789E7"),
        (1e22, "1.0E22"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (5e-324, "4.9E-324"),
        (2.0**-24, "5.960464477539063E-8"),  # Java 17 adds a digit
        (math.nan, '"NaN"'),
        (math.inf, '"Infinity"'),
        (-math.inf, '"-Infinity"'),
    ],
)
def test_a_double_is_spelled_as_in_java(number: float, text: str) -> None:
    assert written(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(2.0**-24)
def test_a_double_reads_back(number: float) -> None:
    assert json.loads(written(number)) == number


@pytest.mark.parametrize(
    ("number", "kept"),
    [(0.1, 0.1), (1 / 3, 0.33333334), (16777217, 16777216.0), (1e-45, 1.4e-45), (1e39, math.inf)],
)
def test_a_float_keeps_what_32_bits_hold(number: float, kept: float) -> None:
    assert as_float(number) == kept


@given(st.floats(width=32))
def test_a_float_is_the_same_in_32_bits(number: float) -> None:
    assert struct.pack("f", as_float(number)) == struct.pack("f", number)


@given(st.text())
def test_a_string_reads_back(text: str) -> None:
    assert json.loads(quoted(text)) == text


def test_only_what_must_be_is_escaped() -> None:
    assert quoted('\x1f\b\t\n\f\r"\\/\x7fé\u2028') == '"\\u001F\\b\\t\\n\\f\\r\\"\\\\/\x7fé\u2028"'


def test_containers_have_no_blanks() -> None:
    assert written({"a": [1, None, True, {}], "": 2.5}) == '{"a":[1,null,true,{}],"":2.5}'
