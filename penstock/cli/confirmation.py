"""Confirmation of irreversible changes: a question on a terminal, `--yes` elsewhere."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ground.printable import one_line
from penstock.cli.failures import Failed

F = TypeVar("F", bound=Callable[..., Any])


def yes_option(command: F) -> F:
    return click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")(command)


def confirm_deletion(what: str) -> None:
    """Asks the user to confirm a deletion. Raises Failed if the answer is no."""
    confirm(f"delete {what}?", "nothing was deleted")


def confirm(question: str, refused: str) -> None:
    """Asks the user a question. Raises Failed with the message `refused` if the answer is no."""
    if not sys.stdin.isatty():
        raise click.UsageError("stdin is not a terminal: pass --yes to confirm")
    try:
        if not click.confirm(one_line(question), err=True):
            raise Failed(refused)
    except click.Abort:
        raise KeyboardInterrupt from None
