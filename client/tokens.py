"""Tokens for OAUTHBEARER: out of a file that somebody else renews, or asked for by OAuth's client
credentials (RFC 6749, section 4.4) and kept for most of their life.
"""

import threading
import time
from base64 import b64encode
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from client.logins import LoginFailed
from client.security import Login
from ground.http_client import HttpClient, HttpError, parse_url
from ground.secrets import NoSecret
from ground.tls import BadTls, ClientTls, Tls

_WITHIN: Final = 10.0
_MOST_BYTES: Final = 256 * 1024
_OF_LIFE: Final = 0.8  # for so much of it a token is used again
_FORM: Final = "application/x-www-form-urlencoded"


class _Granted(msgspec.Struct):
    access_token: str
    expires_in: float = 0.0


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
            granted = msgspec.json.decode(answer.body, type=_Granted)
        except msgspec.MsgspecError:
            raise LoginFailed(f"no token from {self._url}: its answer is no token") from None
        if not granted.access_token:
            raise LoginFailed(f"no token from {self._url}: its answer is no token")
        return granted


class Credentials:
    """What a login needs to be made, as it is now; any thread may ask."""

    def __init__(self, login: Login) -> None:
        self.login = login
        tls = ClientTls(Tls(ca=login.token_ca)) if login.token_ca else None
        self._endpoint = TokenEndpoint(login, tls) if login.token_url else None

    def read(self) -> str:
        """The password, or a token. Raises LoginFailed."""
        try:
            if self._endpoint is not None:
                return self._endpoint.token()
            return self.login.secret.read()
        except NoSecret as error:
            raise LoginFailed(str(error)) from None
