"""What a configuration's `security:` says of how brokers are connected to: the same in every
program that is their client.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
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
    GSSAPI = "GSSAPI"  # Kerberos


_PASSWORD: Final = ("user", "password_file", "password_env")
_TOKEN: Final = (
    *("token_file", "token_url", "client_id", "client_secret_file", "client_secret_env"),
    *("scope", "token_ca"),
)
_TICKET: Final = ("principal", "keytab", "ccache", "service")
_KEYS: Final[Mapping[Mechanism, tuple[str, ...]]] = MappingProxyType(
    {
        Mechanism.PLAIN: _PASSWORD,
        Mechanism.SCRAM_SHA_256: _PASSWORD,
        Mechanism.SCRAM_SHA_512: _PASSWORD,
        Mechanism.OAUTHBEARER: _TOKEN,
        Mechanism.GSSAPI: _TICKET,
    }
)
_SERVICE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
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
    principal: str = ""
    """With GSSAPI: who the client is to Kerberos, `agent@EXAMPLE.ORG`. Without it: whose tickets
    there are."""
    keytab: FilePath = ""
    """With GSSAPI: the principal's key. Tickets are got with it, kept in memory, and renewed before
    they end; it is read again each time."""
    ccache: str = ""
    """With GSSAPI, in place of a keytab: the cache in which somebody else keeps tickets, a file or
    what else `KRB5CCNAME` may say. Without both: the cache of the user who runs the program."""
    service: str = "kafka"
    """With GSSAPI: the first part of the brokers' principals, `kafka/broker-1.example.org`."""
    without_tls: bool = False
    """Allows PLAIN and OAUTHBEARER without `tls`: whoever is on the network reads the secret."""

    def __post_init__(self) -> None:
        keys = _KEYS[self.mechanism]
        if keys is _PASSWORD:
            self._check_needed("user", "password_file or password_env")
        elif keys is _TOKEN:
            self._check_needed("token_file or token_url")
        self._check_foreign(keys)
        if self.token_url and not (
            self.client_id and (self.client_secret_file or self.client_secret_env)
        ):
            raise ValueError("`token_url` needs `client_id`, and its secret")
        if keys is _TICKET:
            self._check_ticket()

    def _check_needed(self, *needed: str) -> None:
        for each in needed:
            given = [name for name in each.split(" or ") if getattr(self, name)]
            if len(given) != 1:
                one = "one of " if " or " in each else ""
                raise ValueError(f"`mechanism: {self.mechanism}` needs {one}{each}")

    def _check_foreign(self, keys: tuple[str, ...]) -> None:
        """Nothing is said that this mechanism would pass over."""
        others = {name for each in _KEYS.values() for name in each if name not in keys}
        fields = (each for each in msgspec.structs.fields(Login) if each.name in others)
        if any(getattr(self, each.name) != each.default for each in fields):
            raise ValueError(
                f"`mechanism: {self.mechanism}` understands {', '.join(keys[:-1])} and {keys[-1]} "
                "alone"
            )

    def _check_ticket(self) -> None:
        if self.keytab and not self.principal:
            raise ValueError("`keytab` needs the `principal` whose key it has")
        if self.keytab and self.ccache:
            raise ValueError("tickets come by a `keytab`, or out of a `ccache`: give one of them")
        if not _SERVICE.fullmatch(self.service):
            raise ValueError("`service` is the part of a principal before the slash, `kafka`")

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
