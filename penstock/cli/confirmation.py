"""A question before something is gone for good: on a terminal it is asked, elsewhere `--yes` is the
answer."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ground.printable import one_line
from penstock.cli.failures import Failed

F = TypeVar("F", bound=Callable[..., Any])


def yes_option(command: F) -> F:
    return click.option("-y", "--yes", is_flag=True, help="Do not ask.")(command)


def confirm_deletion(what: str) -> None:
    """Returns if somebody says yes."""
    if not sys.stdin.isatty():
        raise click.UsageError("nobody is there to be asked: say --yes")
    try:
        if not click.confirm(one_line(f"delete {what}?"), err=True):
            raise Failed("nothing was deleted")
    except click.Abort:
        raise KeyboardInterrupt from None
