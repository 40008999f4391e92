"""The audit's address and credentials, from a connection of type `penstock`.

The keys of its extra are those of `audit_security` in Penstock's own configurations.
"""

import re
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

DEFAULT_PORT: Final = 8090
_EXTRA: Final = {"ca", "certificate", "key", "without_tls"}
_HOST: Final = re.compile(r"[A-Za-z0-9._-]{1,253}|\[?[0-9A-Fa-f:.]{2,45}\]?")


class BadConnection(ValueError):
    """The connection cannot be used; the message says what to change."""


class Connection(Protocol):
    """The fields of Airflow's connection that are used."""

    host: str | None
    port: int | None
    schema: str | None
    login: str | None
    password: str | None

    @property
    def extra_dejson(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, kw_only=True)
class AuditAddress:
    """An audit's URL, and how to be let in."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    ca: str = ""
    certificate: str = ""
    key: str = ""

    def tls(self) -> ssl.SSLContext | bool:
        """Reads the certificates, which takes some time; False without TLS. Raises
        BadConnection."""
        if self.url.startswith("http:"):
            return False
        try:
            context = ssl.create_default_context(cafile=self.ca or None)
            if self.certificate:
                context.load_cert_chain(self.certificate, self.key or None)
        except OSError as error:
            names = ", ".join(filter(None, (self.ca, self.certificate, self.key)))
            raise BadConnection(f"the certificates in {names} cannot be used: {error}") from None
        return context


def address_of(connection: Connection) -> AuditAddress:
    """Raises BadConnection."""
    extra = connection.extra_dejson
    if unknown_keys := sorted(set(extra) - _EXTRA):
        raise BadConnection(f"unknown keys in the extra: {', '.join(unknown_keys)}")
    host = connection.host or "127.0.0.1"
    if not _HOST.fullmatch(host):
        raise BadConnection(f"host {host!r} must be a name or an address, without http:// or path")
    scheme = connection.schema or "http"
    if scheme not in {"http", "https"}:
        raise BadConnection(f"schema {scheme!r} must be http or https")
    headers = _headers(connection.login or "", connection.password or "")
    certificates = {key: str(extra.get(key) or "") for key in ("ca", "certificate", "key")}
    if scheme == "http":
        if any(certificates.values()):
            raise BadConnection("certificates are for schema https: this one is http")
        if headers and not extra.get("without_tls"):
            raise BadConnection(
                "a password or token would be sent in the clear: set the schema to https, or "
                '`"without_tls": true` in the extra on a trusted network'
            )
    host = f"[{host.strip('[]')}]" if ":" in host else host
    url = f"{scheme}://{host}:{connection.port or DEFAULT_PORT}"
    return AuditAddress(url=url, headers=headers, **certificates)


def _headers(user: str, secret: str) -> Mapping[str, str]:
    if user:
        login = b64encode(f"{user}:{secret}".encode()).decode()
        return {"Authorization": f"Basic {login}"}
    if not secret:
        return {}
    if not (secret.isascii() and secret.isprintable()):
        raise BadConnection("the password is not a token: expected one line of ASCII")
    return {"Authorization": f"Bearer {secret}"}
