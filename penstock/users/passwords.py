"""Passwords for commands: read from a file, typed at the terminal, or generated into a file.

They are never command-line arguments, which every user of the machine can read.
"""

import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from ground.logins.scram import LONGEST_PASSWORD
from ground.logins.secrets import NoSecret, Secret
from penstock.cli.failures import Failed

_RANDOM_BYTES: Final = 24

F = TypeVar("F", bound=Callable[..., Any])


def password_options(command: F) -> F:
    """Adds the parameters `password_file` and `generate`."""
    path_type = click.Path(dir_okay=False, path_type=Path)
    file_option = click.option(
        "--password-file",
        type=path_type,
        metavar="FILE",
        help="A file with the password. Without it, the command prompts for one.",
    )
    generate_option = click.option(
        "--generate",
        type=path_type,
        metavar="FILE",
        help="Generate a password and write it into this new file, readable by you only.",
    )
    return file_option(generate_option(command))


@contextmanager
def password_for(name: str, password_file: Path | None, generate: Path | None) -> Iterator[str]:
    """Yields the password that the options name or the user types. A generated file is deleted if
    the block fails."""
    if password_file is not None and generate is not None:
        raise click.UsageError("--password-file and --generate exclude each other")
    if generate is None:
        yield _checked(_prompted(name) if password_file is None else _of_file(password_file))
        return
    password = secrets.token_urlsafe(_RANDOM_BYTES)
    _write(generate, password)
    try:
        yield password
    except BaseException:
        generate.unlink(missing_ok=True)
        raise


def _of_file(path: Path) -> str:
    try:
        return Secret(file=str(path)).read()
    except NoSecret as error:
        raise Failed(str(error)) from None


def _prompted(name: str) -> str:
    if not sys.stdin.isatty():
        raise click.UsageError("stdin is not a terminal: pass --password-file or --generate")
    try:
        answer: str = click.prompt(
            f"password of {name}", hide_input=True, confirmation_prompt="once more", err=True
        )
    except click.Abort:
        raise KeyboardInterrupt from None
    return answer


def _checked(password: str) -> str:
    if len(password) > LONGEST_PASSWORD:
        raise Failed(f"the password has more than {LONGEST_PASSWORD} characters")
    if "\0" in password:
        raise Failed("the password contains a NUL, which PLAIN cannot send")
    return password


def _write(path: Path, password: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise Failed(f"{path}: {(error.strerror or 'cannot be written').lower()}") from None
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{password}\n")
