"""The ASGI application of the audit: `/api/v1`, its description, the page, metrics and health.

All paths take GET and HEAD, except operators' statements (`audit/http/statements.py`) and requests
for certificates (`audit/http/certificates.py`).
`audit/http/access/access_control.py` authorizes requests, and leaves in the scope `user`, None if
unauthenticated, and `operator`, the name and address to record with statements. A few threads
compute responses, which may wait for the disk; if too many requests wait, further ones get 503. Any
invalid input results in a JSON `Problem`, and a bug also in a line of the log.
"""

import asyncio
import gzip
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from http import HTTPStatus
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec
from starlette.types import Receive, Scope, Send

from audit.api import queries
from audit.cures import runbook
from audit.errors import NotNow, StoreDamaged, Unanswerable, Unknown
from audit.http.bodies import BadBody, body_of
from audit.http.certificates import Certificates
from audit.http.messages import ShownMessages
from audit.http.page_files import INDEX, PageFile
from audit.http.resources import MESSAGES, RESOURCES, Resource, description
from audit.http.responses import (
    FRESH,
    HTML,
    JSON,
    PLAIN,
    PageAnswer,
    header,
    plain_text,
    problem,
    send_answer,
    up_from,
)
from audit.http.statements import MOST_BYTES, Statements
from audit.http.statements import PATHS as STATEMENTS
from audit.http.stream import Streams
from audit.service.service import Service, now_millis
from ground.http.exposition import EXPOSITION_TYPE, Histogram
from ledger.certificate_requests import HEADS_PATH
from ledger.certificate_requests import MOST_BYTES as MOST_REQUEST_BYTES
from ledger.certificate_requests import PATH as CERTIFICATES

THREADS: Final = 4  # compute responses

_MOST_WAITING: Final = 64  # requests
_WORTH_PACKING: Final = 4_096
T = TypeVar("T")

log = logging.getLogger(__name__)


_QUERY: Final = "%&+=:/?@!$'()*,;~"  # not escaped in the query of a URL


class AuditApplication:
    """The ASGI application. Belongs to the server's event loop."""

    def __init__(
        self,
        service: Service,
        figures: Callable[[], bytes],
        files: Mapping[str, PageFile],
        executor: Executor,
        version: str,
        *,
        statements: Statements,
        certificates: Certificates,
        messages: ShownMessages,
    ) -> None:
        self._service = service
        self._figures = figures
        self._files = files
        self._executor = executor
        self._statements = statements
        self._certificates = certificates
        self._messages = messages
        self._waiting = 0
        self._resources = {resource.path: resource for resource in RESOURCES}
        self._runbook = runbook.page().encode()
        self._description = msgspec.json.encode(description(version))
        self.streams = Streams(self._line)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        try:
            if path == "/api/v1/stream" and scope["method"] == "GET":
                address = (scope["client"] or ("",))[0]
                if self.streams.room.begin(address):
                    try:
                        await self.streams.serve(receive, send)
                    finally:
                        self.streams.room.end(address)
                    return
            if path in STATEMENTS or path == CERTIFICATES:
                answer = await self._posted(scope, receive, path)
            elif path == MESSAGES.path:
                answer = await self._messages.answer(scope)
            else:
                answer = await self._answer(scope, path)
            await send_answer(answer, scope, send)
        except (OSError, TimeoutError):
            pass  # the client is gone, or too slow

    async def _posted(self, scope: Scope, receive: Receive, path: str) -> PageAnswer:
        if scope["method"] != "POST":
            allow = {"allow": "POST"}
            return problem(HTTPStatus.METHOD_NOT_ALLOWED, "this path takes POST", allow)
        most_bytes = MOST_REQUEST_BYTES if path == CERTIFICATES else MOST_BYTES
        try:
            body = await body_of(scope, receive, JSON, most_bytes)
        except BadBody as error:
            return problem(error.status, str(error))
        if path == CERTIFICATES:
            return await self._guarded(self._certificates.answer(body), scope, path)
        return await self._statements.answer(path, body, scope["operator"])

    async def _answer(self, scope: Scope, path: str) -> PageAnswer:
        if scope["method"] not in {"GET", "HEAD"}:
            allow = {"allow": "GET, HEAD"}
            return problem(HTTPStatus.METHOD_NOT_ALLOWED, "this path takes GET and HEAD", allow)
        return await self._guarded(self._response(scope, path), scope, path)

    async def _guarded(self, answer: Awaitable[PageAnswer], scope: Scope, path: str) -> PageAnswer:
        """Awaits an answer, or makes one of its error."""
        try:
            return await answer
        except Unanswerable as error:
            return problem(error.status, str(error))
        except StoreDamaged as error:
            self._service.note_damage(str(error))
            words = "the audit's database is being rebuilt"
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, words)
        except Exception:  # a bug in one handler does not stop the server
            log.exception("request failed path=%r query=%r", path, scope["query_string"])
            return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error: see the audit's log")

    async def _response(self, scope: Scope, path: str) -> PageAnswer:
        if resource := self._resources.get(path):
            return await self._resource(resource, scope)
        if path == "/":
            return self._file(INDEX, scope)
        if path == "/runbook":
            return PageAnswer(self._runbook, HTML, headers=FRESH)
        if path.startswith(HEADS_PATH):
            return self._certificates.heads_file(path.removeprefix(HEADS_PATH))
        if path.startswith("/static/"):
            return self._file(path.removeprefix("/static/"), scope)
        match path:
            case "/api/openapi.json":
                return PageAnswer(self._description)
            case "/metrics":
                return PageAnswer(await self._on_thread(self._figures), EXPOSITION_TYPE)
            case "/healthz":
                ages = self._service.standing.ages(now_millis()) if _is_known(scope) else ()
                return plain_text("\n".join(["healthy", *ages]))
            case "/readyz":
                return self._readiness(known=_is_known(scope))
            case "/api/v1/stream":
                raise NotNow("too many streams are open: poll `/api/v1/topics` instead")
        if view := _view(path, scope):
            return PageAnswer(
                b"", PLAIN, HTTPStatus.TEMPORARY_REDIRECT, {**FRESH, "location": view}
            )
        raise Unknown(f"unknown path {path[:200]}: `/api/openapi.json` lists all paths")

    async def _resource(self, resource: Resource, scope: Scope) -> PageAnswer:
        query = queries.asked(resource.query, scope["query_string"])
        takes_gzip = _takes_gzip(scope)

        def make() -> PageAnswer:
            start = time.monotonic()
            body = msgspec.json.encode(resource.answer(self._service, query))
            histogram = self._service.requests.setdefault(resource.path, Histogram())
            histogram.observe(time.monotonic() - start)
            if takes_gzip and len(body) >= _WORTH_PACKING:
                headers = {
                    **FRESH,
                    "content-encoding": "gzip",
                    "vary": "accept-encoding",
                }
                return PageAnswer(gzip.compress(body, 1), headers=headers)
            return PageAnswer(body)

        return await self._on_thread(make)

    async def _on_thread(self, make: Callable[[], T]) -> T:
        if self._waiting >= _MOST_WAITING:
            raise NotNow("too many requests are waiting: try again in a moment")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, make)
        finally:
            self._waiting -= 1

    def _file(self, name: str, scope: Scope) -> PageAnswer:
        file = self._files.get(name)
        if file is None:
            raise Unknown(f"the page has no file {name[:200]}")
        headers = {"cache-control": "no-cache", "etag": file.etag}
        if file.etag in header(scope, b"if-none-match"):
            return PageAnswer(b"", file.content_type, HTTPStatus.NOT_MODIFIED, headers)
        return PageAnswer(file.body, file.content_type, headers=headers)

    def _readiness(self, *, known: bool) -> PageAnswer:
        state = self._service.standing
        if why_not := state.why_not_ready():
            words = f"not ready: {why_not}" if known else "not ready"
            return plain_text(words, HTTPStatus.SERVICE_UNAVAILABLE)
        if not known:
            return plain_text("ready")
        notices = [*state.notices(), *state.too_old(now_millis())]
        return plain_text("\n".join(["ready", *notices]))

    def _line(self) -> bytes:
        state = self._service.standing
        line = msgspec.json.encode({"version": state.version, "as_of": state.as_of})
        return b"data: " + line + b"\n\n"


def _view(path: str, scope: Scope) -> str:
    """The relative URL of the page's view for a path that was typed into a browser; empty for other
    requests. The page itself reports views that it does not have."""
    if path.startswith("/api/") or "text/html" not in header(scope, b"accept"):
        return ""
    query = scope["query_string"].decode("latin-1")
    return f"{up_from(path)}#{quote(path.rstrip('/'))}" + (
        f"?{quote(query, safe=_QUERY)}" if query else ""
    )


def _is_known(scope: Scope) -> bool:
    """Whether the user is authenticated, and so may see names of clusters and hosts."""
    return scope["user"] is not None


def _takes_gzip(scope: Scope) -> bool:
    return "gzip" in header(scope, b"accept-encoding")
