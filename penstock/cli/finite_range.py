"""The type of options that take a finite number."""

import math
from typing import Any

import click


class FiniteRange(click.FloatRange):
    """A range of numbers that excludes infinity and `nan`, which click accepts in any range."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number
