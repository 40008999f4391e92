"""An audit that runs somewhere, asked over HTTP by commands.

What answers is believed only as far as it has the shape that was asked for. What it says is shown
to people: whoever prints it makes it printable.
"""

import http.client
from collections.abc import Mapping
from typing import Final, TypeVar
from urllib.parse import urlencode

import msgspec

from audit.http.answers import Problem
from penstock import address_variables
from penstock.failures import Failed
from penstock.http_address import HttpAddress, NobodyAnswers, get, url_option
from penstock.nobody_there import what_to_do
from penstock.registry_connection import shortened

DEFAULT_AUDIT: Final = "http://127.0.0.1:8090"

audit_option = url_option("audit", DEFAULT_AUDIT, address_variables.AUDIT)

_SECONDS: Final = 30.0

T = TypeVar("T")
Parameters = Mapping[str, str | int]


def ask(audit: HttpAddress, path: str, parameters: Parameters, kind: type[T]) -> T:
    """The answer; Failed if there is none of that kind."""
    query = urlencode({name: value for name, value in parameters.items() if value != ""})
    hint = what_to_do(str(audit), DEFAULT_AUDIT, "--audit", address_variables.AUDIT)
    try:
        status, body = get(audit, f"/api/v1/{path}?{query}", program="audit", seconds=_SECONDS)
    except NobodyAnswers as error:
        raise Failed(f"{error.message}{hint}") from None
    if status != http.client.OK:
        raise Failed(f"the audit at {audit} answers {status}: {_why(body)}")
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Failed(f"what answers at {audit} is no audit of this release: {error}") from None


def _why(body: bytes) -> str:
    try:
        said = msgspec.json.decode(body, type=Problem).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        said = body[:200].decode(errors="replace").strip()
    return shortened(said)
