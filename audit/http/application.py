"""What the audit answers over HTTP: `/api/v1`, its description, the page, figures, and whether it
is well.

There are only GET and HEAD, but for what operators say (`audit/http/statements.py`). Who may ask is
settled at the door (`audit/http/door.py`), which leaves a name in the scope's `user`: None is
nobody who is known; and in `operator` who may say something, and from where. An answer is made on
one of a few threads, as it may wait for the disk; if too many wait already, whoever asks is told to
come again. Whatever a client sends, its answer is a JSON `Problem` at worst, and a bug is one line
in the log.
"""

import asyncio
import gzip
import logging
import time
from collections.abc import Callable, Mapping
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
    problem,
    said,
    send_answer,
    up_from,
)
from audit.http.statements import MOST_BYTES, Statements
from audit.http.statements import PATHS as STATEMENTS
from audit.http.stream import Streams
from audit.service.service import Service, now_millis
from ground.exposition import EXPOSITION_TYPE, Histogram

THREADS: Final = 4  # that make answers

_MOST_WAITING: Final = 64  # answers that are asked for and not made yet
_WORTH_PACKING: Final = 4_096
T = TypeVar("T")

log = logging.getLogger(__name__)


_QUERY: Final = "%&+=:/?@!$'()*,;~"  # what stays as it is in the query of an address


class AuditApplication:
    """As ASGI has it. Belongs to the server's event loop."""

    def __init__(
        self,
        service: Service,
        figures: Callable[[], bytes],
        files: Mapping[str, PageFile],
        executor: Executor,
        version: str,
        *,
        statements: Statements,
        messages: ShownMessages,
    ) -> None:
        self._service = service
        self._figures = figures
        self._files = files
        self._executor = executor
        self._statements = statements
        self._messages = messages
        self._waiting = 0
        self._resources = {each.path: each for each in RESOURCES}
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
            if path in STATEMENTS:
                answer = await self._said(scope, receive, path)
            elif path == MESSAGES.path:
                answer = await self._messages.answer(scope)
            else:
                answer = await self._answer(scope, path)
            await send_answer(answer, scope, send)
        except (OSError, TimeoutError):
            pass  # the client went away, or dawdled: there is nobody to tell

    async def _said(self, scope: Scope, receive: Receive, path: str) -> PageAnswer:
        if scope["method"] != "POST":
            words = "there is only POST"
            return problem(HTTPStatus.METHOD_NOT_ALLOWED, words, {"allow": "POST"})
        try:
            body = await body_of(scope, receive, JSON, MOST_BYTES)
        except BadBody as error:
            return problem(error.status, str(error))
        return await self._statements.answer(path, body, scope["operator"])

    async def _answer(self, scope: Scope, path: str) -> PageAnswer:
        if scope["method"] not in {"GET", "HEAD"}:
            return problem(
                HTTPStatus.METHOD_NOT_ALLOWED, "there are only GET and HEAD", {"allow": "GET, HEAD"}
            )
        try:
            return await self._found(scope, path)
        except Unanswerable as error:
            return problem(error.status, str(error))
        except StoreDamaged as error:
            self._service.note_damage(str(error))
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, "the audit's database is built anew")
        except Exception:  # a bug in what was asked; the program lives on
            log.exception("request failed path=%r query=%r", path, scope["query_string"])
            return problem(
                HTTPStatus.INTERNAL_SERVER_ERROR, "this failed; the audit's log says how"
            )

    async def _found(self, scope: Scope, path: str) -> PageAnswer:
        if resource := self._resources.get(path):
            return await self._made(resource, scope)
        if path == "/":
            return self._file(INDEX, scope)
        if path == "/runbook":
            return PageAnswer(self._runbook, HTML, headers=FRESH)
        if path.startswith("/static/"):
            return self._file(path.removeprefix("/static/"), scope)
        match path:
            case "/api/openapi.json":
                return PageAnswer(self._description)
            case "/metrics":
                return PageAnswer(await self._worked(self._figures), EXPOSITION_TYPE)
            case "/healthz":
                ages = self._service.standing.ages(now_millis()) if _is_known(scope) else ()
                return said("\n".join(["healthy", *ages]))
            case "/readyz":
                return self._readiness(known=_is_known(scope))
            case "/api/v1/stream":
                raise NotNow("too many streams are open: ask `/api/v1/topics` now and then")
        if view := _view(path, scope):
            return PageAnswer(
                b"", PLAIN, HTTPStatus.TEMPORARY_REDIRECT, {**FRESH, "location": view}
            )
        raise Unknown(f"there is nothing at {path[:200]}; `/api/openapi.json` says what there is")

    async def _made(self, resource: Resource, scope: Scope) -> PageAnswer:
        query = queries.asked(resource.query, scope["query_string"])
        packed = _takes_gzip(scope)

        def make() -> PageAnswer:
            began = time.monotonic()
            body = msgspec.json.encode(resource.answer(self._service, query))
            seconds = self._service.requests.setdefault(resource.path, Histogram())
            seconds.observe(time.monotonic() - began)
            if packed and len(body) >= _WORTH_PACKING:
                headers = {
                    **FRESH,
                    "content-encoding": "gzip",
                    "vary": "accept-encoding",
                }
                return PageAnswer(gzip.compress(body, 1), headers=headers)
            return PageAnswer(body)

        return await self._worked(make)

    async def _worked(self, make: Callable[[], T]) -> T:
        if self._waiting >= _MOST_WAITING:
            raise NotNow("too much is being asked just now: ask again in a moment")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, make)
        finally:
            self._waiting -= 1

    def _file(self, name: str, scope: Scope) -> PageAnswer:
        file = self._files.get(name)
        if file is None:
            raise Unknown(f"there is no file {name[:200]} of the page")
        headers = {"cache-control": "no-cache", "etag": file.etag}
        if file.etag in header(scope, b"if-none-match"):
            return PageAnswer(b"", file.content_type, HTTPStatus.NOT_MODIFIED, headers)
        return PageAnswer(file.body, file.content_type, headers=headers)

    def _readiness(self, *, known: bool) -> PageAnswer:
        standing = self._service.standing
        if why_not := standing.why_not_ready():
            words = f"not ready: {why_not}" if known else "not ready"
            return said(words, HTTPStatus.SERVICE_UNAVAILABLE)
        if not known:
            return said("ready")
        notices = [*standing.notices(), *standing.too_old(now_millis())]
        return said("\n".join(["ready", *notices]))

    def _line(self) -> bytes:
        standing = self._service.standing
        line = msgspec.json.encode({"version": standing.version, "as_of": standing.as_of})
        return b"data: " + line + b"\n\n"


def _view(path: str, scope: Scope) -> str:
    """Where the page shows what somebody has typed as a path, from there; empty for what no browser
    asks. The page says itself what it does not have."""
    if path.startswith("/api/") or "text/html" not in header(scope, b"accept"):
        return ""
    asked = scope["query_string"].decode("latin-1")
    return f"{up_from(path)}#{quote(path.rstrip('/'))}" + (
        f"?{quote(asked, safe=_QUERY)}" if asked else ""
    )


def _is_known(scope: Scope) -> bool:
    """Whether names of clusters and hosts are for whoever asks, as the door has said."""
    return scope["user"] is not None


def _takes_gzip(scope: Scope) -> bool:
    return "gzip" in header(scope, b"accept-encoding")
