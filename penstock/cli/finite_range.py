"""Numbers on the command line that are really numbers."""

import math
from typing import Any

import click


class FiniteRange(click.FloatRange):
    """A range of numbers, neither infinite nor `nan`, which click takes for one in any range."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number
