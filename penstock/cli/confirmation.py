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
    confirm(f"delete {what}?", "nothing was deleted")


def confirm(question: str, refused: str) -> None:
    """Returns if somebody says yes; else `refused` is what is said."""
    if not sys.stdin.isatty():
        raise click.UsageError("stdin is not a terminal: pass --yes to confirm")
    try:
        if not click.confirm(one_line(question), err=True):
            raise Failed(refused)
    except click.Abort:
        raise KeyboardInterrupt from None
