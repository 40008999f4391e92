"""The configuration section `security:`, the same in every program that connects to brokers."""

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import msgspec

from ground.logins.secrets import Secret
from ground.settings import FilePath, Url
from ground.tls.certificate_expiry import CertificateFiles
from ground.tls.client import Tls


class Mechanism(StrEnum):
    """The SASL mechanisms."""

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
_READABLE: Final = frozenset({Mechanism.PLAIN, Mechanism.OAUTHBEARER})  # send the secret itself


class Login(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A client's identity and credentials."""

    mechanism: Mechanism
    """The SASL mechanism of the brokers' listener."""
    user: str = ""
    """With PLAIN and SCRAM."""
    password_file: FilePath = ""
    """The user's password; a final line break is ignored. Reread for every login."""
    password_env: str = ""
    """The environment variable that holds the password, instead of a file."""
    token_file: FilePath = ""
    """With OAUTHBEARER: a token that another program renews. Reread for every login."""
    token_url: Url = ""
    """With OAUTHBEARER: the token endpoint, for OAuth's client credentials grant."""
    client_id: str = ""
    """The client id for `token_url`."""
    client_secret_file: FilePath = ""
    """The secret of `client_id`."""
    client_secret_env: str = ""
    """The environment variable that holds the secret of `client_id`, instead of a file."""
    scope: str = ""
    """The scope to request at `token_url`, if it requires one."""
    token_ca: FilePath = ""
    """Trusted CA certificates (PEM) for an https `token_url`. Default: the system's."""
    principal: str = ""
    """With GSSAPI: the client's Kerberos principal, `agent@EXAMPLE.ORG`. Default: the owner of the
    tickets."""
    keytab: FilePath = ""
    """With GSSAPI: the principal's key. Tickets are obtained with it, kept in memory, and renewed
    before they expire; the file is reread each time."""
    ccache: str = ""
    """With GSSAPI, instead of a keytab: a ticket cache that another program maintains, a file or
    another form that `KRB5CCNAME` allows. Default without a keytab: the cache of the user who runs
    the program."""
    service: str = "kafka"
    """With GSSAPI: the first part of the brokers' principals, `kafka/broker-1.example.org`."""
    without_tls: bool = False
    """Allows PLAIN and OAUTHBEARER without `tls`, which exposes the secret to the network."""

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
            raise ValueError("`token_url` needs `client_id` and its secret")
        if keys is _TICKET:
            self._check_ticket()

    def _check_needed(self, *needed: str) -> None:
        for alternatives in needed:
            alternatives_set = [name for name in alternatives.split(" or ") if getattr(self, name)]
            if len(alternatives_set) != 1:
                prefix = "one of " if " or " in alternatives else ""
                raise ValueError(f"`mechanism: {self.mechanism}` needs {prefix}{alternatives}")

    def _check_foreign(self, keys: tuple[str, ...]) -> None:
        """Rejects keys that this mechanism would ignore."""
        foreign_keys = {
            name for mechanism_keys in _KEYS.values() for name in mechanism_keys if name not in keys
        }
        fields = (field for field in msgspec.structs.fields(Login) if field.name in foreign_keys)
        if any(getattr(self, field.name) != field.default for field in fields):
            raise ValueError(
                f"`mechanism: {self.mechanism}` takes only {', '.join(keys[:-1])} and {keys[-1]}"
            )

    def _check_ticket(self) -> None:
        if self.keytab and not self.principal:
            raise ValueError("`keytab` needs the `principal` whose key it has")
        if self.keytab and self.ccache:
            raise ValueError("`keytab` and `ccache` exclude each other: set one of them")
        if not _SERVICE.fullmatch(self.service):
            raise ValueError(
                "invalid `service`: set the part of a principal before the slash, such as `kafka`"
            )

    @property
    def secret(self) -> Secret:
        """The password, or the token unless it comes from `token_url`."""
        return Secret(self.token_file or self.password_file, self.password_env)

    @property
    def client_secret(self) -> Secret:
        return Secret(self.client_secret_file, self.client_secret_env)


class Security(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The security of connections to brokers. By default, neither TLS nor a login."""

    tls: Tls | None = None
    """TLS and its trusted certificates; `{}` for the system's."""
    login: Login | None = None
    """The program's login. Default: none; a client certificate may still identify it."""

    def __post_init__(self) -> None:
        login = self.login
        if login and not self.tls and login.mechanism in _READABLE and not login.without_tls:
            raise ValueError(
                f"`mechanism: {login.mechanism}` sends its secret in the clear: add `tls`, or "
                "`without_tls: true` on a trusted network"
            )

    @property
    def certificate_files(self) -> CertificateFiles:
        """The certificate files whose expiry should be monitored."""
        tls, login = self.tls or Tls(), self.login
        ca_files = {tls.ca, login.token_ca if login else ""}
        return CertificateFiles(frozenset({tls.certificate} - {""}), frozenset(ca_files - {""}))
