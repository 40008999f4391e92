"""What a configuration says of how a server is asked over HTTP: TLS, and who the program is.

A `HttpSecurity` is what is configured: names of files and variables, and no secret, so it may
travel in plans and logs. A `HttpAccess` is one in use: secrets are read when a request is made, and
certificates when a connection is, so that both may be exchanged while the program runs.
"""

from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from typing import Final

import msgspec

from ground.secrets import NoSecret, Secret
from ground.settings import FilePath
from ground.tls import ClientTls, Tls

_LONGEST: Final = 16 * 1024


class HttpSecurity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a server is asked over HTTP. Without it: an `https://` URL by the system's certificates,
    and as nobody."""

    tls: Tls | None = None
    """Whom an `https://` URL is believed by, and the program's own certificate. Without it: the
    system's certificates."""
    user: str = ""
    """Who the program is, with a password (HTTP's Basic)."""
    password_file: FilePath = ""
    """The user's password; the last line break does not count. Read again for every request."""
    password_env: str = ""
    """The environment variable that holds the password, where it is in no file."""
    token_file: FilePath = ""
    """In place of a user: a token (HTTP's Bearer). Read again for every request."""
    token_env: str = ""
    """The environment variable that holds the token, where it is in no file."""
    without_tls: bool = False
    """Allows a password or token to `http://` URLs: whoever is on the network reads it."""

    def __post_init__(self) -> None:
        passwords = [name for name in ("password_file", "password_env") if getattr(self, name)]
        tokens = [name for name in ("token_file", "token_env") if getattr(self, name)]
        if self.user and len(passwords) != 1:
            raise ValueError("`user` needs one of password_file or password_env")
        if passwords and not self.user:
            raise ValueError(f"`{passwords[0]}` needs a `user`")
        if len(tokens) > 1 or (tokens and self.user):
            raise ValueError("give a `user` with its password, `token_file`, or `token_env`")
        if ":" in self.user or not self.user.isprintable():
            raise ValueError("`user` has a colon, or what cannot be shown: HTTP has no such names")

    @property
    def has_login(self) -> bool:
        return bool(self.user or self.token_file or self.token_env)

    @property
    def secret(self) -> Secret:
        """The password, or the token."""
        return Secret(self.token_file or self.password_file, self.token_env or self.password_env)


def check_scheme(security: HttpSecurity, scheme: str) -> None:
    """Raises ValueError, for behind the name of a key, if that scheme must not be asked so."""
    if scheme == "https":
        return
    if security.tls is not None:
        raise ValueError("`tls` is for https:// URLs: this one is http://")
    if security.has_login and not security.without_tls:
        raise ValueError(
            "a password or token would be sent as it is to an http:// URL: use https://, or "
            "`without_tls: true` where nobody listens"
        )


class HttpAccess:
    """How one gets in; any thread may ask."""

    def __init__(self, security: HttpSecurity) -> None:
        self.security = security
        self.tls = ClientTls(security.tls) if security.tls is not None else None

    @property
    def headers(self) -> Mapping[str, str]:
        """What says who is asking, as it is now. Raises NoSecret."""
        security = self.security
        if not security.has_login:
            return {}
        secret = security.secret.read()
        if security.user:
            login = b64encode(f"{security.user}:{secret}".encode()).decode()
            return {"Authorization": f"Basic {login}"}
        if len(secret) > _LONGEST or not (secret.isascii() and secret.isprintable()):
            raise NoSecret(f"{security.secret} holds no token: it is one line of ASCII")
        return {"Authorization": f"Bearer {secret}"}


access_to = cache(HttpAccess)
