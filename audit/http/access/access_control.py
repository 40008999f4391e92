"""Access control of the audit's HTTP server: authenticates and authorizes each request.

Rule 1: access is denied by default. Only health pages (without names), the page's own files, and
        the login need no authentication.
Rule 2: a browser's request that changes anything, its session included, must come from a page of
        this audit, according to its `Origin`. This does not apply to programs, which send a token
        or a password with each request.
Rule 3: unauthenticated programs get 401 and JSON; people are redirected to the login.
Rule 4: only operators write; every other known user reads.
Rule 5: a loader's request for certificates changes nothing, and counts as reading, though it takes
        POST; it never comes from a browser.
Rule 6: refusals are counted and logged, without the credentials.

Without logins every request with a valid `Host` may read; programs on this machine may acknowledge
and silence alerts.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from audit.configuration.config import AuditConfig
from audit.errors import NotAllowed, NotKnown, TooOften, Unanswerable, Unknown, WrongName
from audit.http.access.login_paths import LOGIN_PATHS, LoginPaths
from audit.http.access.request_origin import host_name, is_from_browser, is_from_own_page
from audit.http.access.visitors import Visitor, Visitors, address_of
from audit.http.endpoints.alerts import NOTE_PATHS
from audit.http.page_files import PageFile
from audit.http.responses import PageAnswer, header, problem, redirect, send_answer, up_from, values
from audit.http.statements import PATHS as STATEMENTS
from ground.network.listening import is_loopback
from ground.network.refusals import Refusals
from ledger.certificate_requests import PATH as CERTIFICATES

HEALTH: Final = frozenset({"/healthz", "/readyz"})
STATIC: Final = "/static/"
STREAM: Final = "/api/v1/stream"

_READING: Final = frozenset({"GET", "HEAD"})
_WITH_EACH_REQUEST: Final = frozenset({"token", "password"})  # browsers never add these themselves
_NOT_OURS: Final = "only a page of this audit may send this request"
_CHALLENGE: Final = {"www-authenticate": 'Bearer realm="penstock audit"'}
_HSTS: Final = (b"strict-transport-security", b"max-age=31536000")

log = logging.getLogger(__name__)


class AccessControl:
    """An ASGI middleware that checks each request before `application` handles it. Belongs to the
    server's event loop."""

    def __init__(
        self,
        application: ASGIApp,
        config: AuditConfig,
        visitors: Visitors,
        refusals: Refusals,
        files: Mapping[str, PageFile],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._application = application
        self._has_logins = config.has_logins
        self._is_encrypted = config.tls is not None
        self._host_names = frozenset(name.lower() for name in config.host_names)
        self._visitors = visitors
        self._refusals = refusals
        self._login_paths = LoginPaths(config, visitors, files, self._log_refusal)
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._is_encrypted:
            send = _with_hsts(send)
        visitor: Visitor | None = None
        try:
            visitor = await self._authenticated(scope)
            scope["operator"] = self._operator(scope, visitor)
            answer = await self._login_paths.answer(scope, receive, visitor)
        except Unanswerable as error:
            answer = self._refused(scope, error, visitor.name if visitor else "")
        except (OSError, TimeoutError):
            return  # the client is gone, or too slow
        except Exception:  # a bug in one handler does not stop the server
            log.exception("request failed path=%r", scope["path"])
            answer = problem(
                HTTPStatus.INTERNAL_SERVER_ERROR, "internal error: see the audit's log"
            )
        if answer is not None:
            with contextlib.suppress(OSError, TimeoutError):
                await send_answer(answer, scope, send)
            return
        # "" is an anonymous user, without logins.
        scope["user"] = visitor.name if visitor else None if self._has_logins else ""
        if visitor is not None and scope["path"] == STREAM:
            send = _ending_with(visitor.stays, send)
        await self._application(scope, receive, send)

    async def _authenticated(self, scope: Scope) -> Visitor | None:
        """Authenticates the request. Raises Unanswerable if credentials are wrong or missing."""
        path = scope["path"]
        if path in HEALTH:
            return await self._health_visitor(scope)
        self._check_host(scope)
        is_safe = (
            scope["method"] in _READING
            or _is_for_certificates(scope)
            or is_from_own_page(scope, is_encrypted=self._is_encrypted)
        )
        if not is_safe and not (_may_be_program(scope) or self._is_local_note(scope)):
            raise NotAllowed(_NOT_OURS)
        if not self._has_logins or path.startswith(STATIC):
            return None
        visitor = await self._visitors.authenticate(scope)
        if not is_safe and (visitor is None or visitor.by not in _WITH_EACH_REQUEST):
            raise NotAllowed(_NOT_OURS)
        if visitor is None and path not in LOGIN_PATHS:
            if self._needs_login_page(scope):
                raise _LogIn
            if self._visitors.is_forged(scope):
                raise NotKnown("the header that names the user is accepted only from the proxy")
            raise NotKnown("authentication required: log in, or send a token")
        return visitor

    def _operator(self, scope: Scope, visitor: Visitor | None) -> str:
        """The operator and address to record with a statement; empty for a reader. Raises
        NotAllowed."""
        if visitor is not None and self._visitors.is_operator(visitor.name):
            return f"{visitor.name} by {visitor.by} from {address_of(scope)}"
        if scope["path"] in STATEMENTS and scope["method"] == "POST":
            if self._is_local_note(scope):
                return f"from {address_of(scope)}"
            raise NotAllowed("only operators may do this (`operators_file`)")
        return ""

    def _is_local_note(self, scope: Scope) -> bool:
        """Whether a program on this machine acknowledges or silences alerts of an audit without
        logins. Browsers' requests never count: a page of another site may have sent them."""
        is_program = not self._has_logins and not is_from_browser(scope)
        return is_program and is_loopback(address_of(scope)) and scope["path"] in NOTE_PATHS

    async def _health_visitor(self, scope: Scope) -> Visitor | None:
        """The visitor of a health page, if its request has valid credentials."""
        if not self._has_logins:
            return None
        try:
            return await self._visitors.authenticate(scope)
        except Unanswerable:
            return None

    def _refused(self, scope: Scope, error: Unanswerable, user: str) -> PageAnswer:
        if isinstance(error, _LogIn):
            path, query = scope["path"], scope["query_string"].decode("latin-1")
            target = f"{path}?{query}" if query else path
            parameter = f"?next={quote(target, safe='')}" if target != "/" else ""
            return redirect(f"{up_from(path)}login{parameter}")
        if not isinstance(error, Unknown):
            self._log_refusal(error, scope, user)
        headers: dict[str, str] = {}
        if isinstance(error, NotKnown):
            headers = _CHALLENGE
        elif isinstance(error, TooOften):
            headers = {"retry-after": str(error.seconds)}
        return problem(error.status, str(error), headers)

    def _log_refusal(self, error: Unanswerable, scope: Scope, user: str) -> None:
        request = f"{scope['method']} {scope['path']}"
        reason = "too many tries" if isinstance(error, TooOften) else str(error)
        self._refusals.say(reason, address_of(scope), user, request, self._clock())

    def _check_host(self, scope: Scope) -> None:
        """Raises WrongName for a foreign `Host`, as in DNS rebinding."""
        if self._host_names and host_name(scope) not in self._host_names:
            raise WrongName("this audit does not serve this host name (`host_names`)")

    def _needs_login_page(self, scope: Scope) -> bool:
        """Whether a browser requests a page, and password logins exist."""
        path = scope["path"]
        return (
            self._visitors.have_passwords
            and not path.startswith("/api/")
            and path != "/metrics"
            and "text/html" in header(scope, b"accept")
        )


def _may_be_program(scope: Scope) -> bool:
    """Whether the request may be from an operator's program."""
    has_credentials = bool(values(scope, b"authorization"))
    return scope["path"] in STATEMENTS and not is_from_browser(scope) and has_credentials


def _is_for_certificates(scope: Scope) -> bool:
    return scope["path"] == CERTIFICATES and not is_from_browser(scope)


class _LogIn(NotKnown):
    """The user has to log in: the response redirects to the login page."""


def _with_hsts(send: Send) -> Send:
    async def send_with_hsts(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers: list[Any] = [*message["headers"], _HSTS]
            message = {**message, "headers": headers}
        await send(message)

    return send_with_hsts


def _ending_with(stays: Callable[[], bool], send: Send) -> Send:
    """Ends the stream once its reader has lost access."""

    async def send_while_allowed(message: Message) -> None:
        if message["type"] == "http.response.body" and not stays():
            await send({"type": "http.response.body", "body": b""})
            raise ConnectionError
        await send(message)

    return send_while_allowed
