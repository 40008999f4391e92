"""The type of options that are URLs of programs, and a request to such a URL.

The length of an answer is capped. Its content is untrusted: the caller checks its shape, and makes
it printable before showing it.
"""

from typing import Final

import click

from ground.http.client import (
    HttpAnswer,
    HttpClient,
    HttpError,
    HttpUrl,
    NotHttp,
    TooLarge,
    parse_program_url,
)
from ground.http.security import HttpAccess
from penstock.cli.failures import Failed

_MOST_BYTES: Final = 256 * 1024 * 1024


class NotReachable(Failed):
    """No HTTP server listens there, or it does not answer in time."""


class HttpUrlType(click.ParamType[HttpUrl]):
    """The type of options that are URLs of programs; `example` is shown in errors."""

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
                f"{value!r} is not the URL of an {self.program}, such as {self.example}", param, ctx
            )


def get(
    at: HttpUrl,
    target: str,
    *,
    program: str,
    seconds: float,
    access: HttpAccess | None = None,
    posted: bytes | None = None,
) -> HttpAnswer:
    """Requests a path, and returns the answer, whatever its status. With `posted` (JSON), sends a
    POST. Raises Failed if there is no answer."""
    method = "GET" if posted is None else "POST"
    headers = {} if posted is None else {"Content-Type": "application/json"}
    try:
        with HttpClient(at, access=access, most_bytes=_MOST_BYTES) as client:
            return client.ask(method, target, posted, within=seconds, headers=headers)
    except (NotHttp, TooLarge) as error:
        raise Failed(f"the server at {at} is not an {program}: {error.why}") from None
    except HttpError as error:
        raise NotReachable(f"no {program} answers at {at}: {error.why}") from None
