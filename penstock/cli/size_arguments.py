"""Sizes as arguments of commands, in powers of ten."""

import re
from typing import Any, Final

import click

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(B|KB|MB|GB|TB|PB)", re.ASCII | re.IGNORECASE)
_UNITS: Final = ("B", "KB", "MB", "GB", "TB", "PB")
_MOST_BYTES: Final = 1e18


class SizeType(click.ParamType[float]):
    """A size such as 300GB, in powers of ten."""

    name = "size"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        match = _SIZE.fullmatch(str(value).strip())
        size = float(match[1]) * 1000 ** _UNITS.index(match[2].upper()) if match else 0.0
        if not 1 <= size <= _MOST_BYTES:
            self.fail(f"{value!r} is not a size such as 300GB, 1.5TB or 200B")
        return size
