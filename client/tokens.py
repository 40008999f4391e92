"""Tokens for OAUTHBEARER: out of a file that somebody else renews, or asked for by OAuth's client
credentials (RFC 6749, section 4.4) and kept for most of their life.

They are the brokers' to read. Only whom one names is looked at here, to say it in errors.
"""

import threading
import time
from base64 import b64encode, urlsafe_b64decode
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from client.logins import LoginFailed
from client.security import Login
from ground.http_client import HttpClient, HttpError, parse_url
from ground.known_types import known_type
from ground.tls import BadTls, ClientTls

_WITHIN: Final = 10.0
_MOST_BYTES: Final = 256 * 1024
_OF_LIFE: Final = 0.8  # for so much of it a token is used again
_FORM: Final = "application/x-www-form-urlencoded"
_PARTS: Final = 3  # of a signed token: header, claims, signature


class _Granted(msgspec.Struct):
    access_token: str
    expires_in: float = 0.0


class _Named(msgspec.Struct):
    sub: str = ""


class TokenEndpoint:
    """Where tokens are asked for; any thread may."""

    def __init__(self, login: Login, tls: ClientTls | None) -> None:
        self._login = login
        self._tls = tls
        self._url = parse_url(login.token_url)
        self._lock = threading.Lock()
        self._token = ""
        self._until = 0.0

    def token(self) -> str:
        """One that is good for a while. Raises LoginFailed or NoSecret."""
        with self._lock:
            if time.monotonic() >= self._until:
                asked = time.monotonic()
                granted = self._ask()
                self._token = granted.access_token
                self._until = asked + granted.expires_in * _OF_LIFE
            return self._token

    def _ask(self) -> _Granted:
        login = self._login
        form = {"grant_type": "client_credentials"}
        if login.scope:
            form["scope"] = login.scope
        who = f"{quote(login.client_id, safe='')}:{quote(login.client_secret.read(), safe='')}"
        headers = {
            "Authorization": f"Basic {b64encode(who.encode()).decode()}",
            "Content-Type": _FORM,
            "Accept": "application/json",
        }
        try:
            tls = None if self._tls is None else self._tls.context
            with HttpClient(self._url, tls=tls, most_bytes=_MOST_BYTES) as client:
                answer = client.ask(
                    "POST", "", urlencode(form).encode(), within=_WITHIN, headers=headers
                )
        except HttpError as error:
            raise LoginFailed(f"no token from {error}") from None
        except BadTls as error:
            raise LoginFailed(f"no token from {self._url}: {error}") from None
        if answer.status != 200:
            raise LoginFailed(f"no token from {self._url}: it answers with {answer.status}")
        try:
            granted = msgspec.json.decode(answer.body, type=known_type(_Granted))
        except msgspec.MsgspecError:
            raise LoginFailed(f"no token from {self._url}: its answer is no token") from None
        if not granted.access_token:
            raise LoginFailed(f"no token from {self._url}: its answer is no token")
        return granted


def named_by(token: str) -> str:
    """Whom a token names, if it is a JSON Web Token; "" if that cannot be read. Nobody has checked
    it: the brokers do."""
    parts = token.split(".")
    if len(parts) != _PARTS:
        return ""
    try:
        said = urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(said, type=known_type(_Named)).sub
    except (ValueError, msgspec.MsgspecError):
        return ""
