"""A broker's listeners, with their protocols and logins: `listeners:` of its configuration.

A client is told the addresses of the listener that it uses, of every broker that has a listener of
that name.
"""

import re
import ssl
from typing import Final

import msgspec

from client.connection.security import Mechanism, Security
from cluster.values import Endpoint
from ground.network.listening import check_exposed, is_everywhere
from ground.settings import Port, WholeSeconds
from ground.tls.certificate_names import NameRule, certificate_name
from ground.tls.server import ListenerTls, ServerTls

PLAINTEXT: Final = "PLAINTEXT"
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_READABLE: Final = frozenset({Mechanism.PLAIN, Mechanism.OAUTHBEARER})  # readable on the network


class ListenerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One address, and the requirements for clients that connect to it."""

    name: str
    """The listener's name in the cluster: clients are told the addresses of the listeners with this
    name."""
    host: str = "127.0.0.1"
    """The address that it listens on."""
    port: Port
    """The port that it listens on; 0: any that is free."""
    advertised_host: str = ""
    """The host that clients connect to. Default: `host`."""
    advertised_port: Port = 0
    """The port that clients connect to; 0: `port`."""
    tls: ListenerTls | None = None
    """TLS, and the certificates that are accepted from clients."""
    certificate_names: tuple[NameRule, ...] = ()
    """The principal of a client's certificate: the first rule that matches its subject. Default:
    its common name."""
    logins: tuple[Mechanism, ...] = ()
    """The login mechanisms: `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `OAUTHBEARER`. A certificate
    that is `asked` for replaces a login."""
    login_seconds: WholeSeconds = 0
    """The lifetime of a login; clients renew it before that, or are disconnected. 0: as long as the
    connection or the token."""
    without_tls: bool = False
    """Allows PLAIN and OAUTHBEARER without `tls`: the secrets can then be read on the network."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                "`name` must consist of letters, digits, - and _, begin with a letter, and have "
                "at most 64 characters"
            )
        for name in ("port", "advertised_port"):
            if not 0 <= getattr(self, name) < 65536:
                raise ValueError(f"`{name}` must be between 0 and 65535")
        if self.login_seconds < 0:
            raise ValueError("`login_seconds` must not be negative")
        if self.certificate_names and not (self.tls and self.tls.client_ca):
            raise ValueError("`certificate_names` needs `tls` with a `client_ca`")
        if Mechanism.GSSAPI in self.logins:
            raise ValueError("`logins: [GSSAPI]`: Penstock's brokers do not support Kerberos")
        readable_mechanisms = _READABLE.intersection(self.logins)
        if readable_mechanisms and not self.tls and not self.without_tls:
            raise ValueError(
                f"`logins: [{min(readable_mechanisms)}]` sends secrets unencrypted: add `tls`, or "
                "`without_tls: true` on a trusted network"
            )

    @property
    def protocol(self) -> str:
        """Kafka's name for the security protocol."""
        transport = "SSL" if self.tls else PLAINTEXT
        return f"SASL_{transport}" if self.logins else transport

    @property
    def knows_everybody(self) -> bool:
        """Whether every client must authenticate."""
        return bool(self.logins) or (self.tls is not None and self.tls.requires_certificates)

    @property
    def is_open(self) -> bool:
        """Whether the listener accepts every client, without TLS."""
        return not self.logins and not self.tls


class BetweenBrokers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How this broker's own processes, and other brokers, connect to it."""

    listener: str
    """The name of the listener."""
    security: Security = Security()
    """The client's TLS and login."""


def check_listeners(
    listeners: tuple[ListenerConfig, ...],
    between: BetweenBrokers | None,
    *,
    insecure: bool,
) -> None:
    """Raises ValueError if listeners contradict each other, or one is unintentionally open."""
    names = [listener.name for listener in listeners]
    if repeated_name := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"`listeners`: two listeners have the name {repeated_name}")
    ports = [(listener.host, listener.port) for listener in listeners if listener.port]
    if len(set(ports)) < len(ports):
        raise ValueError("`listeners`: two listeners have the same address")
    for listener in listeners:
        check_exposed("host", listener.host, insecure=insecure or listener.knows_everybody)
    if between is not None and between.listener not in names:
        raise ValueError(f"`between_brokers`: no listener has the name {between.listener}")


class Listener(msgspec.Struct, frozen=True):
    """A running listener on `port`."""

    config: ListenerConfig
    port: int
    tls: ServerTls | None

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def address(self) -> str:
        return f"{self.name}://{self.config.host}:{self.port}"

    @property
    def advertised_address(self) -> str:
        host, port = self.advertised
        return f"{self.name}://{host}:{port}"

    @property
    def endpoint(self) -> Endpoint:
        host, port = self.advertised
        return Endpoint(protocol=self.config.protocol, host=host, port=port, name=self.name)

    @property
    def advertised(self) -> tuple[str, int]:
        config = self.config
        return config.advertised_host or config.host, config.advertised_port or self.port

    @property
    def from_here(self) -> tuple[str, int]:
        """The address for processes of this machine: with TLS the advertised one, which the
        certificate names."""
        if self.tls is not None:
            return self.advertised
        host = self.config.host
        if is_everywhere(host) or not host:
            host = "::1" if ":" in host else "127.0.0.1"
        return host, self.port

    @property
    def certifies(self) -> bool:
        """Whether a client's certificate determines its principal. If the listener requires both a
        certificate and a login, the login does."""
        tls = self.config.tls
        if tls is None or not tls.client_ca:
            return False
        return not (self.config.logins and tls.requires_certificates)

    def certificate_name(self, connection: ssl.SSLSocket) -> str:
        """Returns the principal of the client's certificate; "" if the client has shown none."""
        certificate = connection.getpeercert()
        if not certificate:
            return ""
        return certificate_name(certificate, self.config.certificate_names)
