"""Tokens for OAUTHBEARER: from a file that another program renews, or requested by OAuth's client
credentials grant (RFC 6749, section 4.4) and reused for most of their lifetime.

Brokers verify the tokens. Here only the subject is read, for error messages.
"""

import threading
import time
from base64 import b64encode, urlsafe_b64decode
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from client.connection.logins import LoginFailed
from client.connection.security import Login
from ground.http.client import HttpClient, HttpError, parse_url
from ground.known_types import known_type
from ground.tls.client import BadTls, ClientTls

_WITHIN: Final = 10.0
_MOST_BYTES: Final = 256 * 1024
_OF_LIFE: Final = 0.8  # the fraction of its lifetime in which a token is reused
_FORM: Final = "application/x-www-form-urlencoded"
_PARTS: Final = 3  # of a signed token: header, claims, signature


class _Granted(msgspec.Struct):
    access_token: str
    expires_in: float = 0.0


class _Named(msgspec.Struct):
    sub: str = ""


class TokenEndpoint:
    """Requests tokens. Thread-safe."""

    def __init__(self, login: Login, tls: ClientTls | None) -> None:
        self._login = login
        self._tls = tls
        self._url = parse_url(login.token_url)
        self._lock = threading.Lock()
        self._token = ""
        self._until = 0.0

    def token(self) -> str:
        """Returns a token that is valid for a while. Raises LoginFailed or NoSecret."""
        with self._lock:
            if time.monotonic() >= self._until:
                request_time = time.monotonic()
                grant = self._ask()
                self._token = grant.access_token
                self._until = request_time + grant.expires_in * _OF_LIFE
            return self._token

    def _ask(self) -> _Granted:
        login = self._login
        form_fields = {"grant_type": "client_credentials"}
        if login.scope:
            form_fields["scope"] = login.scope
        credentials = (
            f"{quote(login.client_id, safe='')}:{quote(login.client_secret.read(), safe='')}"
        )
        headers = {
            "Authorization": f"Basic {b64encode(credentials.encode()).decode()}",
            "Content-Type": _FORM,
            "Accept": "application/json",
        }
        try:
            tls = None if self._tls is None else self._tls.context
            with HttpClient(self._url, tls=tls, most_bytes=_MOST_BYTES) as client:
                response = client.ask(
                    "POST", "", urlencode(form_fields).encode(), within=_WITHIN, headers=headers
                )
        except HttpError as error:
            raise LoginFailed(f"no token from {error}") from None
        except BadTls as error:
            raise LoginFailed(f"no token from {self._url}: {error}") from None
        if response.status != 200:
            raise LoginFailed(f"no token from {self._url}: HTTP status {response.status}")
        try:
            grant = msgspec.json.decode(response.body, type=known_type(_Granted))
        except msgspec.MsgspecError:
            raise LoginFailed(f"no token from {self._url}: its answer is not a token") from None
        if not grant.access_token:
            raise LoginFailed(f"no token from {self._url}: its answer is not a token")
        return grant


def named_by(token: str) -> str:
    """Returns the subject of a JSON Web Token, unverified; "" if it cannot be read."""
    parts = token.split(".")
    if len(parts) != _PARTS:
        return ""
    try:
        claims_bytes = urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(claims_bytes, type=known_type(_Named)).sub
    except (ValueError, msgspec.MsgspecError):
        return ""
