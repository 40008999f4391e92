"""HTTP responses and the headers of requests."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.types import Scope, Send

from audit.api.answers import Problem

JSON: Final = "application/json"
PLAIN: Final = "text/plain; charset=utf-8"
GZIP: Final = "application/gzip"
HTML: Final = "text/html; charset=utf-8"
FRESH: Final = {"cache-control": "no-store"}

# Every response has these headers. Pages load our own files only and cannot be framed. Forms send
# their origin to this site only, which tells them from forms of other sites.
GUARDS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class PageAnswer(msgspec.Struct, frozen=True):
    body: bytes
    content_type: str = JSON
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = msgspec.field(default_factory=lambda: FRESH)


def problem(
    status: HTTPStatus, why: str, headers: Mapping[str, str] | None = None, command: str = ""
) -> PageAnswer:
    return PageAnswer(
        msgspec.json.encode(Problem(error=why, command=command)),
        status=status,
        headers={**FRESH, **(headers or {})},
    )


def plain_text(text: str, status: HTTPStatus = HTTPStatus.OK) -> PageAnswer:
    return PageAnswer(text.encode() + b"\n", PLAIN, status)


def redirect(place: str, headers: Mapping[str, str] | None = None) -> PageAnswer:
    """Redirects to a page, which the browser then requests by GET."""
    redirect_headers = {**FRESH, **(headers or {}), "location": place}
    return PageAnswer(b"", PLAIN, HTTPStatus.SEE_OTHER, redirect_headers)


def values(scope: Scope, name: bytes) -> list[str]:
    """Returns the values of a header, which a request can have several times."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def header(scope: Scope, name: bytes) -> str:
    return ",".join(values(scope, name))


def up_from(path: str) -> str:
    """Returns the relative path to the page, which stays valid behind any prefix of a proxy."""
    return "../" * (path.count("/") - 1) or "./"


async def send_answer(answer: PageAnswer, scope: Scope, send: Send) -> None:
    headers = {**GUARDS, **answer.headers, "content-type": answer.content_type}
    if answer.status is not HTTPStatus.NOT_MODIFIED:
        headers["content-length"] = str(len(answer.body))
    encoded_headers = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": encoded_headers})
    body = b"" if scope["method"] == "HEAD" else answer.body
    await send({"type": "http.response.body", "body": body})
