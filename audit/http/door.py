"""The door of the audit's HTTP server: who may come in, before anything is answered.

Rule 1: the default is no. What is open without a login is a short list: the health pages (without
        names), the page's own files, and the login. A new path is behind the door.
Rule 2: whoever changes something, be it his own session, must come from a page of ours: a browser
        says so in `Origin`, whatever site it was led from.
Rule 3: programs are answered with 401 and JSON, people are led to the login.
        Programs, which show a token or a password with each request, have no page.
Rule 4: what is written is written by operators alone; everybody else who is known may read.
Rule 5: whoever is refused is counted, and said in the log; nothing of what he showed is.

Without logins everybody comes in, as far as `Host` is right; and programs of this machine may say
something about alerts.
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
from audit.http.alerts import NOTE_PATHS
from audit.http.bodies import body_of
from audit.http.login_page import MOST_BYTES, login_page, safe_place, typed
from audit.http.page_files import PageFile
from audit.http.responses import (
    PageAnswer,
    header,
    led_to,
    problem,
    send_answer,
    up_from,
    values,
)
from audit.http.statements import PATHS as STATEMENTS
from audit.http.visitors import Visitor, Visitors, address_of
from ground.network.listening import is_loopback
from ground.network.refusals import Refusals

HEALTH: Final = frozenset({"/healthz", "/readyz"})
STATIC: Final = "/static/"
OWN: Final = frozenset({"/login", "/logout", "/session"})  # what is answered here
STREAM: Final = "/api/v1/stream"

_FORM: Final = "application/x-www-form-urlencoded"
_READING: Final = frozenset({"GET", "HEAD"})
_WITH_EACH_REQUEST: Final = frozenset({"token", "password"})  # no browser adds these by itself
_NOT_OURS: Final = "that is asked for from a page of this audit alone"
_CHALLENGE: Final = {"www-authenticate": 'Bearer realm="penstock audit"'}
_HSTS: Final = (b"strict-transport-security", b"max-age=31536000")
_QUERY: Final = "%&+=:/?@!$'()*,;~"

log = logging.getLogger(__name__)


class Door:
    """As ASGI has it, in front of `behind`. Belongs to the server's event loop."""

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
        self._names = frozenset(each.lower() for each in config.host_names)
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
            visitor = await self._known(scope)
            scope["operator"] = self._operator(scope, visitor)
            answer = await self._own(scope, receive, visitor)
        except Unanswerable as error:
            answer = self._refused(scope, error, visitor.name if visitor else "")
        except (OSError, TimeoutError):
            return  # the client went away, or dawdled: there is nobody to tell
        except Exception:  # a bug in what was asked; the program lives on
            log.exception("request failed path=%r", scope["path"])
            answer = problem(HTTPStatus.INTERNAL_SERVER_ERROR, "this failed; the log says how")
        if answer is not None:
            with contextlib.suppress(OSError, TimeoutError):
                await send_answer(answer, scope, send)
            return
        # "" is anybody, where nobody is asked.
        scope["user"] = visitor.name if visitor else None if self._is_locked else ""
        if visitor is not None and scope["path"] == STREAM:
            send = _while(visitor.stays, send)
        await self._behind(scope, receive, send)

    async def _known(self, scope: Scope) -> Visitor | None:
        """Who it is. Raises Unanswerable where that is wrong, or missing."""
        path = scope["path"]
        if path in HEALTH:
            return await self._perhaps_known(scope)
        self._check_name(scope)
        is_ours = scope["method"] in _READING or self._is_from_us(scope)
        if not is_ours and not (_may_be_a_program(scope) or self._is_local_note(scope)):
            raise NotAllowed(_NOT_OURS)
        if not self._is_locked or path.startswith(STATIC):
            return None
        visitor = await self._visitors.who(scope)
        if not is_ours and (visitor is None or visitor.by not in _WITH_EACH_REQUEST):
            raise NotAllowed(_NOT_OURS)
        if visitor is None and path not in OWN:
            if self._leads_to_login(scope):
                raise _LogIn
            if self._visitors.is_forged(scope):
                raise NotKnown("who asks is believed from the proxy alone")
            raise NotKnown("authentication required: log in, or send a token")
        return visitor

    def _operator(self, scope: Scope, visitor: Visitor | None) -> str:
        """Who says what is to be written, and from where; empty for who only reads. Raises
        NotAllowed."""
        if visitor is not None and self._visitors.is_operator(visitor.name):
            return f"{visitor.name} by {visitor.by} from {address_of(scope)}"
        if scope["path"] in STATEMENTS and scope["method"] == "POST":
            if self._is_local_note(scope):
                return f"from {address_of(scope)}"
            raise NotAllowed("only operators may say that (`operators_file`)")
        return ""

    def _is_local_note(self, scope: Scope) -> bool:
        """Whether a program on this machine acknowledges or silences alerts of an audit without
        logins. Requests of browsers never count: a page from elsewhere may have made them."""
        is_program = not self._is_locked and not _is_from_a_browser(scope)
        return is_program and is_loopback(address_of(scope)) and scope["path"] in NOTE_PATHS

    async def _perhaps_known(self, scope: Scope) -> Visitor | None:
        """Whoever asks whether it lives is answered."""
        if not self._is_locked:
            return None
        try:
            return await self._visitors.who(scope)
        except Unanswerable:
            return None

    async def _own(
        self, scope: Scope, receive: Receive, visitor: Visitor | None
    ) -> PageAnswer | None:
        """What is answered here; None: it is answered behind."""
        match scope["path"], scope["method"]:
            case "/session", "GET" | "HEAD":
                who = {"user": visitor.name, "by": visitor.by} if visitor else {}
                may: dict[str, object] = {"operator": bool(scope["operator"])}
                if self._messages.topics and (scope["operator"] or self._messages_for_all):
                    may["messages"] = self._messages.topics
                return PageAnswer(msgspec.json.encode({"user": "", "by": "", **who, **may}))
            case "/login", "GET" | "HEAD" if self._visitors.have_passwords:
                place = _asked_place(scope)
                if visitor is not None:
                    return led_to(_from_login(place))
                return login_page(self._files, place)
            case "/login", "POST" if self._visitors.have_passwords:
                return await self._log_in(scope, receive)
            case "/logout", "POST" if self._visitors.have_passwords:
                self._visitors.log_out(scope)
                return led_to("./login", {"set-cookie": self._cookie("", "; Max-Age=0")})
            case (("/login" | "/logout"), _) if not self._visitors.have_passwords:
                raise Unknown("nobody logs in with a password here")
            case (("/login" | "/logout" | "/session"), _):
                allowed = {"allow": "POST" if scope["path"] == "/logout" else "GET, HEAD"}
                return problem(HTTPStatus.METHOD_NOT_ALLOWED, "not in that way", allowed)
        return None

    async def _log_in(self, scope: Scope, receive: Receive) -> PageAnswer:
        place, user = "/", ""
        try:
            form = typed(await body_of(scope, receive, _FORM, MOST_BYTES))
            place, user = form["next"], form["user"]
            secret = await self._visitors.log_in(address_of(scope), user, form["password"])
        except Unanswerable as error:
            self._say(error, scope, self._visitors.known_name(user))
            words = f"{str(error)[:1].upper()}{str(error)[1:]}."
            after = {"retry-after": str(error.seconds)} if isinstance(error, TooOften) else {}
            return login_page(self._files, place, words, error.status, after)
        self._visitors.log_out(scope)  # another one that this browser had
        log.info("logged in user=%s address=%s", user, address_of(scope))
        return led_to(_from_login(place), {"set-cookie": self._cookie(secret)})

    def _cookie(self, secret: str, more: str = "") -> str:
        secure = "; Secure" if self._is_encrypted else ""
        return f"{self._visitors.cookie}={secret}; Path=/; HttpOnly; SameSite=Strict{secure}{more}"

    def _refused(self, scope: Scope, error: Unanswerable, user: str) -> PageAnswer:
        if isinstance(error, _LogIn):
            path, query = scope["path"], scope["query_string"].decode("latin-1")
            there = f"{path}?{query}" if query else path
            wanted = f"?next={quote(there, safe='')}" if there != "/" else ""
            return led_to(f"{up_from(path)}login{wanted}")
        if not isinstance(error, Unknown):
            self._say(error, scope, user)
        more: dict[str, str] = {}
        if isinstance(error, NotKnown):
            more = _CHALLENGE
        elif isinstance(error, TooOften):
            more = {"retry-after": str(error.seconds)}
        return problem(error.status, str(error), more)

    def _say(self, error: Unanswerable, scope: Scope, user: str = "") -> None:
        asked = f"{scope['method']} {scope['path']}"
        why = "too many tries" if isinstance(error, TooOften) else str(error)
        self._refusals.say(why, address_of(scope), user, asked, self._clock())

    def _check_name(self, scope: Scope) -> None:
        """Raises WrongName: a name that leads here is another's, or somebody's trick."""
        if self._names and _name_of(header(scope, b"host")) not in self._names:
            raise WrongName("this audit is not asked for by that name (`host_names`)")

    def _is_from_us(self, scope: Scope) -> bool:
        """Whether a browser has sent it from a page of ours."""
        origins, hosts = values(scope, b"origin"), values(scope, b"host")
        if len(origins) != 1 or len(hosts) != 1:
            return False
        if any(each != "same-origin" for each in values(scope, b"sec-fetch-site")):
            return False
        scheme, _, place = origins[0].lower().partition("://")
        # Without TLS of ours, a proxy in front may have it.
        schemes = {"https"} if self._is_encrypted else {"http", "https"}
        return scheme in schemes and place == hosts[0].lower()

    def _leads_to_login(self, scope: Scope) -> bool:
        """Whether a person looks for a page, and could log in."""
        path = scope["path"]
        return (
            self._visitors.have_passwords
            and not path.startswith("/api/")
            and path != "/metrics"
            and "text/html" in header(scope, b"accept")
        )


def _may_be_a_program(scope: Scope) -> bool:
    """Whether it could be one that says something as an operator: of a browser's requests that
    change anything each has an `Origin`."""
    has_proof = bool(values(scope, b"authorization"))
    return scope["path"] in STATEMENTS and not _is_from_a_browser(scope) and has_proof


def _is_from_a_browser(scope: Scope) -> bool:
    return bool(values(scope, b"origin") or values(scope, b"sec-fetch-site"))


class _LogIn(NotKnown):
    """A person, who is led to the login."""


def _name_of(host: str) -> str:
    """Without the port."""
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdecimal() else host.lower()


def _asked_place(scope: Scope) -> str:
    try:
        asked = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=16)
    except ValueError:
        return "/"
    return safe_place(asked.get("next", ["/"])[0])


def _from_login(place: str) -> str:
    """The way to a place of ours, relative, so that it never leads elsewhere."""
    return f"./{safe_place(place).lstrip('/')}"


def _with_hsts(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers: list[Any] = [*message["headers"], _HSTS]
            message = {**message, "headers": headers}
        await send(message)

    return sent


def _while(stays: Callable[[], bool], send: Send) -> Send:
    """Ends what is streamed when whoever reads it may not any more."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.body" and not stays():
            await send({"type": "http.response.body", "body": b""})
            raise ConnectionError
        await send(message)

    return sent
