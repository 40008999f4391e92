"""Handles the paths /login, /logout and /session."""

import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs

import msgspec
from starlette.types import Receive, Scope

from audit.configuration.config import AuditConfig, MessageReaders
from audit.errors import TooOften, Unanswerable, Unknown
from audit.http.access.login_page import MOST_BYTES, login_page, safe_place, typed
from audit.http.access.visitors import Visitor, Visitors, address_of
from audit.http.bodies import body_of
from audit.http.page_files import PageFile
from audit.http.responses import PageAnswer, problem, redirect

LOGIN_PATHS: Final = frozenset({"/login", "/logout", "/session"})

_FORM: Final = "application/x-www-form-urlencoded"
_ALLOWED: Final = {"/login": "GET, HEAD, POST", "/logout": "POST"}

log = logging.getLogger(__name__)


class LoginPaths:
    """The handler of /login, /logout and /session. Belongs to the event loop. Calls `log_refusal`
    with the error, request and user."""

    def __init__(
        self,
        config: AuditConfig,
        visitors: Visitors,
        files: Mapping[str, PageFile],
        log_refusal: Callable[[Unanswerable, Scope, str], None],
    ) -> None:
        self._is_encrypted = config.tls is not None
        self._messages = config.messages
        self._messages_for_all = config.messages.shown_to is MessageReaders.READERS
        self._visitors = visitors
        self._files = files
        self._log_refusal = log_refusal

    async def answer(
        self, scope: Scope, receive: Receive, visitor: Visitor | None
    ) -> PageAnswer | None:
        """Handles login, logout and session; returns None for all other paths. Raises
        Unanswerable."""
        match scope["path"], scope["method"]:
            case "/session", "GET" | "HEAD":
                return self._session(scope, visitor)
            case "/login", "GET" | "HEAD" if self._visitors.have_passwords:
                return_path = _place_parameter(scope)
                if visitor is not None:
                    return redirect(_from_login(return_path))
                return login_page(self._files, return_path)
            case "/login", "POST" if self._visitors.have_passwords:
                return await self._log_in(scope, receive)
            case "/logout", "POST" if self._visitors.have_passwords:
                self._visitors.log_out(scope)
                return redirect("./login", {"set-cookie": self._cookie("", "; Max-Age=0")})
            case (("/login" | "/logout"), _) if not self._visitors.have_passwords:
                raise Unknown("this audit has no password logins")
            case (("/login" | "/logout" | "/session"), _):
                methods = _ALLOWED.get(scope["path"], "GET, HEAD")
                return problem(
                    HTTPStatus.METHOD_NOT_ALLOWED, "method not allowed", {"allow": methods}
                )
        return None

    def _session(self, scope: Scope, visitor: Visitor | None) -> PageAnswer:
        session: dict[str, object] = {
            "user": visitor.name if visitor else "",
            "by": visitor.by if visitor else "",
            "operator": bool(scope["operator"]),
        }
        if self._messages.topics and (scope["operator"] or self._messages_for_all):
            session["messages"] = self._messages.topics
        return PageAnswer(msgspec.json.encode(session))

    async def _log_in(self, scope: Scope, receive: Receive) -> PageAnswer:
        return_path, user = "/", ""
        try:
            form = typed(await body_of(scope, receive, _FORM, MOST_BYTES))
            return_path, user = form["next"], form["user"]
            secret = await self._visitors.log_in(address_of(scope), user, form["password"])
        except Unanswerable as error:
            self._log_refusal(error, scope, self._visitors.known_name(user))
            message = f"{str(error)[:1].upper()}{str(error)[1:]}."
            headers = {"retry-after": str(error.seconds)} if isinstance(error, TooOften) else {}
            return login_page(self._files, return_path, message, error.status, headers)
        self._visitors.log_out(scope)  # the browser's former session
        log.info("logged in user=%s address=%s", user, address_of(scope))
        return redirect(_from_login(return_path), {"set-cookie": self._cookie(secret)})

    def _cookie(self, secret: str, attributes: str = "") -> str:
        secure = "; Secure" if self._is_encrypted else ""
        return (
            f"{self._visitors.cookie}={secret}; Path=/; HttpOnly; SameSite=Strict"
            f"{secure}{attributes}"
        )


def _place_parameter(scope: Scope) -> str:
    try:
        parameters = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=16)
    except ValueError:
        return "/"
    return safe_place(parameters.get("next", ["/"])[0])


def _from_login(place: str) -> str:
    """The relative path from the login to a place, which cannot lead to another site."""
    return f"./{safe_place(place).lstrip('/')}"
