"""The configuration of outgoing HTTP requests: TLS and credentials.

An `HttpSecurity` is configuration: it has names of files and variables but no secrets, so it may
appear in plans and logs. An `HttpAccess` is one in use: it reads secrets for each request and
certificates for each connection, so that both can be replaced while the program runs.
"""

from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from typing import Final

import msgspec

from ground.logins.secrets import NoSecret, Secret
from ground.settings import FilePath
from ground.tls.client import ClientTls, Tls

_LONGEST: Final = 16 * 1024


class HttpSecurity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """TLS and credentials of HTTP requests. Default: `https://` with the system's certificates,
    without credentials."""

    tls: Tls | None = None
    """The certificates that an `https://` server must be signed by, and the program's own. Default:
    the system's certificates."""
    user: str = ""
    """The program's user name, with a password (HTTP's Basic)."""
    password_file: FilePath = ""
    """The user's password; a final line break is ignored. Reread for every request."""
    password_env: str = ""
    """The environment variable that holds the password, instead of a file."""
    token_file: FilePath = ""
    """Instead of a user: a token (HTTP's Bearer). Reread for every request."""
    token_env: str = ""
    """The environment variable that holds the token, instead of a file."""
    without_tls: bool = False
    """Allows a password or token for `http://` URLs, which exposes it to the network."""

    def __post_init__(self) -> None:
        passwords = [name for name in ("password_file", "password_env") if getattr(self, name)]
        tokens = [name for name in ("token_file", "token_env") if getattr(self, name)]
        if self.user and len(passwords) != 1:
            raise ValueError("`user` needs one of password_file or password_env")
        if passwords and not self.user:
            raise ValueError(f"`{passwords[0]}` needs a `user`")
        if len(tokens) > 1 or (tokens and self.user):
            raise ValueError(
                "set only one of `user` with its password, `token_file`, and `token_env`"
            )
        if ":" in self.user or not self.user.isprintable():
            raise ValueError("`user` must not contain a colon or unprintable characters")

    @property
    def has_login(self) -> bool:
        return bool(self.user or self.token_file or self.token_env)

    @property
    def secret(self) -> Secret:
        """The password, or the token."""
        return Secret(self.token_file or self.password_file, self.token_env or self.password_env)


def check_scheme(security: HttpSecurity, scheme: str) -> None:
    """Checks that the scheme fits the settings. Raises ValueError, with text to follow a key's
    name."""
    if scheme == "https":
        return
    if security.tls is not None:
        raise ValueError("`tls` is for https:// URLs: this one is http://")
    if security.has_login and not security.without_tls:
        raise ValueError(
            "a password or token would be sent in the clear to an http:// URL: use https://, or "
            "`without_tls: true` on a trusted network"
        )


class HttpAccess:
    """TLS and credentials for HTTP requests. Thread-safe."""

    def __init__(self, security: HttpSecurity) -> None:
        self.security = security
        self.tls = ClientTls(security.tls) if security.tls is not None else None

    @property
    def headers(self) -> Mapping[str, str]:
        """The current authorization header; empty if no login is configured. Raises NoSecret."""
        security = self.security
        if not security.has_login:
            return {}
        secret = security.secret.read()
        if security.user:
            login = b64encode(f"{security.user}:{secret}".encode()).decode()
            return {"Authorization": f"Basic {login}"}
        if len(secret) > _LONGEST or not (secret.isascii() and secret.isprintable()):
            raise NoSecret(f"{security.secret} is not a token: expected one line of ASCII")
        return {"Authorization": f"Bearer {secret}"}


access_to = cache(HttpAccess)
