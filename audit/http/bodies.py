"""Reads request bodies of one type, limited in size and time."""

import asyncio
from http import HTTPStatus
from typing import Final

from starlette.types import Receive, Scope

from audit.errors import Unanswerable
from audit.http.responses import header

_SECONDS: Final = 5.0


class BadBody(Unanswerable):
    status = HTTPStatus.BAD_REQUEST


async def body_of(scope: Scope, receive: Receive, kind: str, most: int) -> bytes:
    """Reads and parses a request body of type `kind`. Raises BadBody, TimeoutError,
    ConnectionError."""
    if header(scope, b"content-type").partition(";")[0].strip().lower() != kind:
        raise BadBody(f"`Content-Type` must be {kind}")
    body = bytearray()
    async with asyncio.timeout(_SECONDS):
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise ConnectionError
            body += message.get("body", b"")
            if len(body) > most:
                raise BadBody(f"the body is larger than {most} bytes")
            if not message.get("more_body"):
                return bytes(body)
