"""What a configuration's `security:` says of how brokers are connected to: the same in every
program that is their client.
"""

from enum import StrEnum
from typing import Final

import msgspec

from ground.certificate_expiry import CertificateFiles
from ground.secrets import Secret
from ground.settings import FilePath, Url
from ground.tls import Tls


class Mechanism(StrEnum):
    """How a client says who it is, by SASL's names."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


_BY_PASSWORD: Final = frozenset({Mechanism.PLAIN, Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512})
_READABLE: Final = frozenset({Mechanism.PLAIN, Mechanism.OAUTHBEARER})  # for who listens


class Login(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who a client is, and how it proves that."""

    mechanism: Mechanism
    """What the brokers' listener asks for."""
    user: str = ""
    """With PLAIN and SCRAM."""
    password_file: FilePath = ""
    """The user's password; the last line break does not count. Read again for every login."""
    password_env: str = ""
    """The environment variable that holds the password, where it is in no file."""
    token_file: FilePath = ""
    """With OAUTHBEARER: a token that somebody else renews. Read again for every login."""
    token_url: Url = ""
    """With OAUTHBEARER: where a token is asked for, by OAuth's client credentials."""
    client_id: str = ""
    """Who asks at `token_url`."""
    client_secret_file: FilePath = ""
    """The secret of `client_id`."""
    client_secret_env: str = ""
    """The environment variable that holds the secret of `client_id`, where it is in no file."""
    scope: str = ""
    """What is asked for at `token_url`, if something must be said."""
    token_ca: FilePath = ""
    """Certificates (PEM) of those who may sign that of an https `token_url`. Without it: the
    system's."""
    without_tls: bool = False
    """Allows PLAIN and OAUTHBEARER without `tls`: whoever is on the network reads the secret."""

    def __post_init__(self) -> None:
        if self.mechanism in _BY_PASSWORD:
            self._check(
                ("user", "password_file or password_env"),
                not (self.token_file or self.token_url or self.client_id or self.scope),
                "user, password_file and password_env",
            )
        else:
            self._check(
                ("token_file or token_url",),
                not (self.user or self.password_file or self.password_env),
                "token_file, or token_url with client_id and its secret",
            )
            if self.token_url and not (
                self.client_id and (self.client_secret_file or self.client_secret_env)
            ):
                raise ValueError("`token_url` needs `client_id`, and its secret")

    def _check(self, needed: tuple[str, ...], is_clean: bool, understood: str) -> None:
        for each in needed:
            given = [name for name in each.split(" or ") if getattr(self, name)]
            if len(given) != 1:
                one = "one of " if " or " in each else ""
                raise ValueError(f"`mechanism: {self.mechanism}` needs {one}{each}")
        if not is_clean:
            raise ValueError(f"`mechanism: {self.mechanism}` understands {understood} alone")

    @property
    def secret(self) -> Secret:
        """The password, or the token that is not asked for."""
        return Secret(self.token_file or self.password_file, self.password_env)

    @property
    def client_secret(self) -> Secret:
        return Secret(self.client_secret_file, self.client_secret_env)


class Security(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How brokers are connected to. Without it: neither TLS nor a login."""

    tls: Tls | None = None
    """TLS, and whom it believes; `{}` for the system's certificates."""
    login: Login | None = None
    """Who the program is. Without it: nobody, or who its certificate says."""

    def __post_init__(self) -> None:
        login = self.login
        if login and not self.tls and login.mechanism in _READABLE and not login.without_tls:
            raise ValueError(
                f"`mechanism: {login.mechanism}` sends its secret as it is: add `tls`, or "
                "`without_tls: true` where nobody listens"
            )

    @property
    def certificate_files(self) -> CertificateFiles:
        """Whose end somebody should know of in time."""
        tls, login = self.tls or Tls(), self.login
        believed = {tls.ca, login.token_ca if login else ""}
        return CertificateFiles(frozenset({tls.certificate} - {""}), frozenset(believed - {""}))
