"""An audit that runs somewhere, asked over HTTP by commands.

What answers is believed only as far as it has the shape that was asked for. What it says is shown
to people: whoever prints it makes it printable.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, TypeVar
from urllib.parse import urlencode

import msgspec

from audit.answers import Problem
from ground.http_client import HttpUrl
from penstock.cli import address_variables
from penstock.cli.address_variables import what_to_do
from penstock.cli.failures import Failed
from penstock.cli.http_address import NobodyAnswers, get, url_option
from penstock.cli.registry_connection import shortened

DEFAULT_AUDIT: Final = "http://127.0.0.1:8090"

audit_option = url_option("audit", DEFAULT_AUDIT, address_variables.AUDIT)

_SECONDS: Final = 30.0

T = TypeVar("T")
Parameters = Mapping[str, str | int]


def ask(audit: HttpUrl, path: str, parameters: Parameters, kind: type[T]) -> T:
    """The answer; Failed if there is none of that kind."""
    query = urlencode({name: value for name, value in parameters.items() if value != ""})
    hint = what_to_do(str(audit), DEFAULT_AUDIT, "--audit", address_variables.AUDIT)
    try:
        answer = get(audit, f"/api/v1/{path}?{query}", program="audit", seconds=_SECONDS)
    except NobodyAnswers as error:
        raise Failed(f"{error.message}{hint}") from None
    if answer.status != HTTPStatus.OK:
        raise Failed(f"the audit at {audit} answers {answer.status}: {_why(answer.body)}")
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Failed(f"what answers at {audit} is no audit of this release: {error}") from None


def _why(body: bytes) -> str:
    try:
        said = msgspec.json.decode(body, type=Problem).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        said = body[:200].decode(errors="replace").strip()
    return shortened(said)
