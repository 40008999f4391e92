"""A program's HTTP port: its address as an option, and one request to it.

What answers is read only so far, and believed by nobody yet: whoever asked checks its shape, and
makes it printable before it is shown.
"""

import http.client
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

import click

from penstock.failures import Failed

F = TypeVar("F", bound=Callable[..., Any])

_MOST_BYTES: Final = 256 * 1024 * 1024
_SCHEMES: Final = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}


class HttpAddress(NamedTuple):
    """Where a program is. `path` is what a proxy in front of it adds."""

    scheme: str
    host: str
    port: int | None
    path: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"


class NobodyAnswers(Failed):
    """Nothing that speaks HTTP listens there, or it is silent."""


class HttpUrl(click.ParamType[HttpAddress]):
    """A URL, as an option. `example` is one such, of this kind of program."""

    name = "url"

    def __init__(self, program: str, example: str) -> None:
        self.program = program
        self.example = example

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> HttpAddress:
        try:
            return http_address(value)
        except ValueError:
            self.fail(
                f"{value!r} is no address of an {self.program}, such as {self.example}", param, ctx
            )


def url_option(program: str, default: str, variable: str) -> Callable[[F], F]:
    """`--program URL`, for commands that ask one."""
    return click.option(
        f"--{program}",
        type=HttpUrl(program, default),
        default=default,
        show_default=True,
        envvar=variable,
        show_envvar=True,
        metavar="URL",
        help=f"The {program} that is asked.",
    )


def http_address(url: str) -> HttpAddress:
    """Raises ValueError if it is none."""
    parts = urlsplit(url)
    port = parts.port
    if parts.scheme not in _SCHEMES or not parts.hostname or "@" in parts.netloc:
        raise ValueError(url)
    if parts.query or parts.fragment or not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError(url)
    return HttpAddress(parts.scheme, parts.hostname, port, parts.path.rstrip("/"))


def get(at: HttpAddress, target: str, *, program: str, seconds: float) -> tuple[int, bytes]:
    """The status and the body, whatever they are; Failed if there is no answer at all."""
    connection = _SCHEMES[at.scheme](at.host, at.port, timeout=seconds)
    try:
        connection.request("GET", at.path + target, headers={"Accept": "application/json"})
        answer = connection.getresponse()
        body = answer.read(_MOST_BYTES)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise NobodyAnswers(f"no {program} answers at {at}: {reason}") from None
    except http.client.HTTPException as error:
        raise Failed(f"what answers at {at} is no {program}: {error!r}") from None
    finally:
        connection.close()
    return answer.status, body
