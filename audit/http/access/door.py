"""The door of the audit's HTTP server: authenticates and authorizes every request first.

Rule 1: access is denied by default. Open without a login are the health pages (without names), the
        page's own files, and the login. A new path is closed.
Rule 2: a browser's request that changes anything, its session included, must come from a page of
        this audit, as its `Origin` says. Programs, which send a token or a password with each
        request, need none.
Rule 3: unauthenticated programs get 401 and JSON; people are redirected to the login.
Rule 4: only operators write; every other known user reads.
Rule 5: refusals are counted and logged, without the credentials.

Without logins every request with a valid `Host` may read; programs on this machine may acknowledge
and silence alerts.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs, quote

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from audit.configuration.config import AuditConfig, MessageReaders
from audit.errors import (
    NotAllowed,
    NotKnown,
    TooOften,
    Unanswerable,
    Unknown,
    WrongName,
)
from audit.http.access.login_page import MOST_BYTES, login_page, safe_place, typed
from audit.http.access.visitors import Visitor, Visitors, address_of
from audit.http.bodies import body_of
from audit.http.endpoints.alerts import NOTE_PATHS
from audit.http.page_files import PageFile
from audit.http.responses import (
    PageAnswer,
    header,
    problem,
    redirect,
    send_answer,
    up_from,
    values,
)
from audit.http.statements import PATHS as STATEMENTS
from ground.network.listening import is_loopback
from ground.network.refusals import Refusals

HEALTH: Final = frozenset({"/healthz", "/readyz"})
STATIC: Final = "/static/"
OWN: Final = frozenset({"/login", "/logout", "/session"})  # handled here
STREAM: Final = "/api/v1/stream"

_FORM: Final = "application/x-www-form-urlencoded"
_READING: Final = frozenset({"GET", "HEAD"})
_WITH_EACH_REQUEST: Final = frozenset({"token", "password"})  # browsers never add these themselves
_NOT_OURS: Final = "only a page of this audit may send this request"
_CHALLENGE: Final = {"www-authenticate": 'Bearer realm="penstock audit"'}
_HSTS: Final = (b"strict-transport-security", b"max-age=31536000")
_QUERY: Final = "%&+=:/?@!$'()*,;~"

log = logging.getLogger(__name__)

_ALLOWED: Final = {"/login": "GET, HEAD, POST", "/logout": "POST"}


class Door:
    """An ASGI application in front of `behind`. Belongs to the server's event loop."""

    def __init__(
        self,
        behind: ASGIApp,
        config: AuditConfig,
        visitors: Visitors,
        refusals: Refusals,
        files: Mapping[str, PageFile],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._behind = behind
        self._is_locked = config.has_logins
        self._is_encrypted = config.tls is not None
        self._names = frozenset(name.lower() for name in config.host_names)
        self._messages = config.messages
        self._messages_for_all = config.messages.shown_to is MessageReaders.READERS
        self._visitors = visitors
        self._refusals = refusals
        self._files = files
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._is_encrypted:
            send = _with_hsts(send)
        visitor: Visitor | None = None
        try:
            visitor = await self._authenticated(scope)
            scope["operator"] = self._operator(scope, visitor)
            answer = await self._own_path(scope, receive, visitor)
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
        scope["user"] = visitor.name if visitor else None if self._is_locked else ""
        if visitor is not None and scope["path"] == STREAM:
            send = _ending_with(visitor.stays, send)
        await self._behind(scope, receive, send)

    async def _authenticated(self, scope: Scope) -> Visitor | None:
        """Authenticates the request. Raises Unanswerable if credentials are wrong or missing."""
        path = scope["path"]
        if path in HEALTH:
            return await self._health_visitor(scope)
        self._check_host(scope)
        is_ours = scope["method"] in _READING or self._is_from_us(scope)
        if not is_ours and not (_may_be_program(scope) or self._is_local_note(scope)):
            raise NotAllowed(_NOT_OURS)
        if not self._is_locked or path.startswith(STATIC):
            return None
        visitor = await self._visitors.authenticate(scope)
        if not is_ours and (visitor is None or visitor.by not in _WITH_EACH_REQUEST):
            raise NotAllowed(_NOT_OURS)
        if visitor is None and path not in OWN:
            if self._needs_login_page(scope):
                raise _LogIn
            if self._visitors.is_forged(scope):
                raise NotKnown("the user's header is accepted from the proxy only")
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
        is_program = not self._is_locked and not _is_from_browser(scope)
        return is_program and is_loopback(address_of(scope)) and scope["path"] in NOTE_PATHS

    async def _health_visitor(self, scope: Scope) -> Visitor | None:
        """The visitor, for health checks, which need none."""
        if not self._is_locked:
            return None
        try:
            return await self._visitors.authenticate(scope)
        except Unanswerable:
            return None

    async def _own_path(
        self, scope: Scope, receive: Receive, visitor: Visitor | None
    ) -> PageAnswer | None:
        """Handles login, logout and session; None for all other paths."""
        match scope["path"], scope["method"]:
            case "/session", "GET" | "HEAD":
                who = {"user": visitor.name, "by": visitor.by} if visitor else {}
                may: dict[str, object] = {"operator": bool(scope["operator"])}
                if self._messages.topics and (scope["operator"] or self._messages_for_all):
                    may["messages"] = self._messages.topics
                return PageAnswer(msgspec.json.encode({"user": "", "by": "", **who, **may}))
            case "/login", "GET" | "HEAD" if self._visitors.have_passwords:
                place = _place_parameter(scope)
                if visitor is not None:
                    return redirect(_from_login(place))
                return login_page(self._files, place)
            case "/login", "POST" if self._visitors.have_passwords:
                return await self._log_in(scope, receive)
            case "/logout", "POST" if self._visitors.have_passwords:
                self._visitors.log_out(scope)
                return redirect("./login", {"set-cookie": self._cookie("", "; Max-Age=0")})
            case (("/login" | "/logout"), _) if not self._visitors.have_passwords:
                raise Unknown("this audit has no password logins")
            case (("/login" | "/logout" | "/session"), _):
                allowed = _ALLOWED.get(scope["path"], "GET, HEAD")
                return problem(
                    HTTPStatus.METHOD_NOT_ALLOWED, "method not allowed", {"allow": allowed}
                )
        return None

    async def _log_in(self, scope: Scope, receive: Receive) -> PageAnswer:
        place, user = "/", ""
        try:
            form = typed(await body_of(scope, receive, _FORM, MOST_BYTES))
            place, user = form["next"], form["user"]
            secret = await self._visitors.log_in(address_of(scope), user, form["password"])
        except Unanswerable as error:
            self._log_refusal(error, scope, self._visitors.known_name(user))
            words = f"{str(error)[:1].upper()}{str(error)[1:]}."
            after = {"retry-after": str(error.seconds)} if isinstance(error, TooOften) else {}
            return login_page(self._files, place, words, error.status, after)
        self._visitors.log_out(scope)  # the browser's former session
        log.info("logged in user=%s address=%s", user, address_of(scope))
        return redirect(_from_login(place), {"set-cookie": self._cookie(secret)})

    def _cookie(self, secret: str, more: str = "") -> str:
        secure = "; Secure" if self._is_encrypted else ""
        return f"{self._visitors.cookie}={secret}; Path=/; HttpOnly; SameSite=Strict{secure}{more}"

    def _refused(self, scope: Scope, error: Unanswerable, user: str) -> PageAnswer:
        if isinstance(error, _LogIn):
            path, query = scope["path"], scope["query_string"].decode("latin-1")
            target = f"{path}?{query}" if query else path
            parameter = f"?next={quote(target, safe='')}" if target != "/" else ""
            return redirect(f"{up_from(path)}login{parameter}")
        if not isinstance(error, Unknown):
            self._log_refusal(error, scope, user)
        more: dict[str, str] = {}
        if isinstance(error, NotKnown):
            more = _CHALLENGE
        elif isinstance(error, TooOften):
            more = {"retry-after": str(error.seconds)}
        return problem(error.status, str(error), more)

    def _log_refusal(self, error: Unanswerable, scope: Scope, user: str = "") -> None:
        request = f"{scope['method']} {scope['path']}"
        why = "too many tries" if isinstance(error, TooOften) else str(error)
        self._refusals.say(why, address_of(scope), user, request, self._clock())

    def _check_host(self, scope: Scope) -> None:
        """Raises WrongName for a foreign `Host`, as in DNS rebinding."""
        if self._names and _name_of(header(scope, b"host")) not in self._names:
            raise WrongName("this audit does not serve this host name (`host_names`)")

    def _is_from_us(self, scope: Scope) -> bool:
        """Whether a browser sent the request from a page of this audit."""
        origins, hosts = values(scope, b"origin"), values(scope, b"host")
        if len(origins) != 1 or len(hosts) != 1:
            return False
        if any(site != "same-origin" for site in values(scope, b"sec-fetch-site")):
            return False
        scheme, _, place = origins[0].lower().partition("://")
        # Without `tls`, a proxy in front may terminate TLS.
        schemes = {"https"} if self._is_encrypted else {"http", "https"}
        return scheme in schemes and place == hosts[0].lower()

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
    """Whether the request may be an operator's program. Browsers' requests that change anything
    have an `Origin`."""
    has_proof = bool(values(scope, b"authorization"))
    return scope["path"] in STATEMENTS and not _is_from_browser(scope) and has_proof


def _is_from_browser(scope: Scope) -> bool:
    return bool(values(scope, b"origin") or values(scope, b"sec-fetch-site"))


class _LogIn(NotKnown):
    """Redirects a person to the login."""


def _name_of(host: str) -> str:
    """The `Host` without its port."""
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdecimal() else host.lower()


def _place_parameter(scope: Scope) -> str:
    try:
        parameters = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=16)
    except ValueError:
        return "/"
    return safe_place(parameters.get("next", ["/"])[0])


def _from_login(place: str) -> str:
    """The relative path from the login to a place, which cannot lead to another site."""
    return f"./{safe_place(place).lstrip('/')}"


def _with_hsts(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers: list[Any] = [*message["headers"], _HSTS]
            message = {**message, "headers": headers}
        await send(message)

    return sent


def _ending_with(stays: Callable[[], bool], send: Send) -> Send:
    """Ends the stream once its reader has lost access."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.body" and not stays():
            await send({"type": "http.response.body", "body": b""})
            raise ConnectionError
        await send(message)

    return sent
