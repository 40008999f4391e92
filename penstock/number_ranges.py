"""Ranges of offsets, events and bytes, as options: written as a verdict's words have them."""

import re
from typing import Final, NamedTuple

import click

# With thousands separated or not, so that they can be copied.
_RANGE: Final = re.compile(r"(\d[\d,]{0,30})(?:\s*(?:-|–|to)\s*(\d[\d,]{0,30}))?", re.ASCII)
_MOST: Final = 2**62  # what the ledger can add up


class NumberRange(NamedTuple):
    """From the first up to but without the last."""

    first: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.first


class NumbersType(click.ParamType[NumberRange]):
    """`4711-4722`, both included; one number is itself."""

    name = "range"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> NumberRange:
        first, last = _numbers(value)
        found = NumberRange(first, (first if last is None else last) + 1)
        if not _is_range(found):
            self.fail(f"{value!r} is no range like 4711-4722, nor a number, below 2^62")
        return found


class BytesType(click.ParamType[NumberRange]):
    """`8192-9216`, without the last one, as positions in a file are given."""

    name = "range"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> NumberRange:
        first, end = _numbers(value)
        found = NumberRange(first, -1 if end is None else end)
        if not _is_range(found):
            self.fail(f"{value!r} is no range like 8192-9216, below 2^62")
        return found


def _is_range(found: NumberRange) -> bool:
    return 0 <= found.first < found.end <= _MOST


def _numbers(text: str) -> tuple[int, int | None]:
    """What stands before and behind the dash; -1 if it cannot be read."""
    read = _RANGE.fullmatch(text.strip())
    if read is None:
        return -1, None
    first, last = read.groups()
    return _number(first), None if last is None else _number(last)


def _number(text: str) -> int:
    return int(text.replace(",", ""))
