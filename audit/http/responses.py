"""What is sent, and how; and what is read of a request's headers."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.types import Scope, Send

from audit.api.answers import Problem

JSON: Final = "application/json"
PLAIN: Final = "text/plain; charset=utf-8"
HTML: Final = "text/html; charset=utf-8"
FRESH: Final = {"cache-control": "no-store"}  # nobody keeps an answer

# What goes with every answer: a page of ours loads what is ours, and is in nobody's frame. Forms
# say where they come from to ourselves alone, by which those of other sites are known.
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
    """What is sent."""

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


def said(text: str, status: HTTPStatus = HTTPStatus.OK) -> PageAnswer:
    return PageAnswer(text.encode() + b"\n", PLAIN, status)


def led_to(place: str, headers: Mapping[str, str] | None = None) -> PageAnswer:
    """Another page, which is then asked for by GET."""
    moved = {**FRESH, **(headers or {}), "location": place}
    return PageAnswer(b"", PLAIN, HTTPStatus.SEE_OTHER, moved)


def values(scope: Scope, name: bytes) -> list[str]:
    """Of a header that may have come several times."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def header(scope: Scope, name: bytes) -> str:
    return ",".join(values(scope, name))


def up_from(path: str) -> str:
    """The way from a path to the page, whatever a proxy has put before both."""
    return "../" * (path.count("/") - 1) or "./"


async def send_answer(answer: PageAnswer, scope: Scope, send: Send) -> None:
    headers = {**GUARDS, **answer.headers, "content-type": answer.content_type}
    if answer.status is not HTTPStatus.NOT_MODIFIED:
        headers["content-length"] = str(len(answer.body))
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": encoded})
    body = b"" if scope["method"] == "HEAD" else answer.body
    await send({"type": "http.response.body", "body": body})
