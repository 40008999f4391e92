"""The option `--watch`: a command that shows its output again and again."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from penstock.cli.finite_range import FiniteRange

F = TypeVar("F", bound=Callable[..., Any])

_SECONDS: Final = 2.0


def watch_option(command: F) -> F:
    """Adds the parameter `watch`: the seconds between two outputs, or None."""
    return click.option(
        "--watch",
        type=FiniteRange(min=0.2, max=86_400),
        is_flag=False,
        flag_value=_SECONDS,
        metavar="[SECONDS]",
        help=f"Refresh every SECONDS, {_SECONDS:g} by default, until Ctrl-C.",
    )(command)
