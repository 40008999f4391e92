"""An audit that runs somewhere, asked over HTTP by commands.

What answers is believed only as far as it has the shape that was asked for. What it says is shown
to people: whoever prints it makes it printable.
"""

import http.client
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlencode, urlsplit

import click
import msgspec

from audit.http.answers import Problem
from penstock.failures import Failed
from penstock.registry_connection import shortened

DEFAULT_AUDIT: Final = "http://127.0.0.1:8090"

_SECONDS: Final = 30.0
_MOST_BYTES: Final = 256 * 1024 * 1024
_HIGHEST_PORT: Final = 65_535
_SCHEMES: Final = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
Parameters = Mapping[str, str | int]


class AuditAddress(NamedTuple):
    """Where an audit is. `path` is what a proxy in front of it adds."""

    scheme: str
    host: str
    port: int | None
    path: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"


class AuditUrl(click.ParamType[AuditAddress]):
    """A URL, as an option."""

    name = "url"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> AuditAddress:
        try:
            return audit_address(value)
        except ValueError as error:
            self.fail(str(error))


def audit_option(command: F) -> F:
    return click.option(
        "--audit",
        type=AuditUrl(),
        default=DEFAULT_AUDIT,
        show_default=True,
        metavar="URL",
        help="The audit that is asked.",
    )(command)


def audit_address(url: str) -> AuditAddress:
    """Raises ValueError if it is none."""
    wrong = f"{url!r} is no address of an audit, such as {DEFAULT_AUDIT}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(wrong) from None
    if parts.scheme not in _SCHEMES or not parts.hostname or "@" in parts.netloc:
        raise ValueError(wrong)
    if parts.query or parts.fragment or not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError(wrong)
    return AuditAddress(parts.scheme, parts.hostname, port, parts.path.rstrip("/"))


def ask(audit: AuditAddress, path: str, parameters: Parameters, kind: type[T]) -> T:
    """The answer; Failed if there is none of that kind."""
    query = urlencode({name: value for name, value in parameters.items() if value != ""})
    status, body = _get(audit, f"{audit.path}/api/v1/{path}?{query}")
    if status != http.client.OK:
        raise Failed(f"the audit at {audit} answers {status}: {_why(body)}")
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Failed(f"what answers at {audit} is no audit of this release: {error}") from None


def _get(audit: AuditAddress, target: str) -> tuple[int, bytes]:
    connection = _SCHEMES[audit.scheme](audit.host, audit.port, timeout=_SECONDS)
    try:
        connection.request("GET", target, headers={"Accept": "application/json"})
        answer = connection.getresponse()
        body = answer.read(_MOST_BYTES)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise Failed(f"no audit answers at {audit}: {reason}") from None
    except http.client.HTTPException as error:
        raise Failed(f"what answers at {audit} is no audit: {error!r}") from None
    finally:
        connection.close()
    return answer.status, body


def _why(body: bytes) -> str:
    try:
        said = msgspec.json.decode(body, type=Problem).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = body[:200].decode(errors="replace").strip()
    return shortened(said)
