"""A program's HTTP port: its address as an option, and one request to it.

What answers is read only so far, and believed by nobody yet: whoever asked checks its shape, and
makes it printable before it is shown.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from ground.http_client import (
    HttpAnswer,
    HttpClient,
    HttpError,
    HttpUrl,
    NotHttp,
    TooLarge,
    parse_program_url,
)
from ground.http_security import HttpAccess
from penstock.cli.failures import Failed

F = TypeVar("F", bound=Callable[..., Any])

_MOST_BYTES: Final = 256 * 1024 * 1024


class NobodyAnswers(Failed):
    """Nothing that speaks HTTP listens there, or it is silent."""


class HttpUrlType(click.ParamType[HttpUrl]):
    """A URL, as an option. `example` is one such, of this kind of program."""

    name = "url"

    def __init__(self, program: str, example: str) -> None:
        self.program = program
        self.example = example

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> HttpUrl:
        try:
            return parse_program_url(value)
        except ValueError:
            self.fail(
                f"{value!r} is no address of an {self.program}, such as {self.example}", param, ctx
            )


def url_option(program: str, default: str, variable: str) -> Callable[[F], F]:
    """`--program URL`, for commands that ask one."""
    return click.option(
        f"--{program}",
        type=HttpUrlType(program, default),
        default=default,
        show_default=True,
        envvar=variable,
        show_envvar=True,
        metavar="URL",
        help=f"The {program} that is asked.",
    )


def get(
    at: HttpUrl,
    target: str,
    *,
    program: str,
    seconds: float,
    access: HttpAccess | None = None,
) -> HttpAnswer:
    """Of any status; Failed if there is no answer at all."""
    try:
        with HttpClient(at, access=access, most_bytes=_MOST_BYTES) as client:
            return client.ask("GET", target, within=seconds)
    except (NotHttp, TooLarge) as error:
        raise Failed(f"what answers at {at} is no {program}: {error.why}") from None
    except HttpError as error:
        raise NobodyAnswers(f"no {program} answers at {at}: {error.why}") from None
