"""The brokers under test, secured: a listener for each combination of TLS and login, and one user.

Their certificates have P-256 keys and the same authority; other settings are the defaults.
"""

import contextlib
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from bench.servers.brokers import (
    APACHE_KAFKA,
    PENSTOCK,
    Broker,
    Kind,
    apache_kafka_server,
    penstock_cluster,
)
from harness.logins.certificates import Authority
from harness.processes.server_process import free_ports

USER: Final = "alice"
PASSWORD: Final = "a-secret-1f0c77ab"
MECHANISM: Final = "SCRAM-SHA-512"
ITERATIONS: Final = 4_096  # Kafka's default
_TLS, _LOGIN, _BOTH = "SSL", "SASL_PLAINTEXT", "SASL_SSL"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_PATIENCE: Final = 60.0


class LockedBroker(Broker, frozen=True):
    """A started broker; `port` is that of its plaintext listener."""

    ports: Mapping[str, int]  # of the other listeners, by Kafka's name of the protocol
    ca: Path

    @property
    def tls_port(self) -> int:
        return self.ports[_TLS]

    @property
    def tls(self) -> ssl.SSLContext:
        """A client's context for TLS 1.3."""
        return client_context(self.ca)

    def login_port(self, *, with_tls: bool) -> int:
        return self.ports[_BOTH if with_tls else _LOGIN]


def client_context(ca: Path) -> ssl.SSLContext:
    """Returns a context for TLS 1.3 that trusts the authority in this file."""
    context = ssl.create_default_context(cafile=str(ca))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


@contextlib.contextmanager
def _penstock(directory: Path) -> Iterator[LockedBroker]:
    authority = Authority(directory / "authority")
    certificate = authority.sign("broker")
    open_port, *locked_ports = free_ports(4)
    ports = dict(zip((_TLS, _LOGIN, _BOTH), locked_ports, strict=True))

    def listener(name: str) -> dict[str, object]:
        files = {"certificate": str(certificate.certificate), "key": str(certificate.key)}
        tls = {} if name == _LOGIN else {"tls": files}
        logins = {} if name == _TLS else {"logins": [MECHANISM]}
        return {"name": name, "port": ports[name], **tls, **logins}

    listeners = [{"name": "OPEN", "port": open_port}, *map(listener, ports)]
    with penstock_cluster(directory, {"listeners": listeners}) as (_, server):
        _add_user(server.port)
        yield LockedBroker(PENSTOCK, server, {}, ports, authority.ca)


@contextlib.contextmanager
def _apache_kafka(directory: Path) -> Iterator[LockedBroker]:
    authority = Authority(directory / "authority")
    ports = dict(zip((_TLS, _LOGIN, _BOTH), free_ports(3), strict=True))
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.sign("broker").both),
        "sasl.enabled.mechanisms": MECHANISM,
        **{
            f"listener.name.{protocol.lower()}.{MECHANISM.lower()}.sasl.jaas.config": _SCRAM
            for protocol in (_LOGIN, _BOTH)
        },
    }
    with apache_kafka_server(directory / "broker", settings=settings, beside=ports) as server:
        _add_user(server.port)
        yield LockedBroker(APACHE_KAFKA, server, {}, ports, authority.ca)


def _add_user(port: int) -> None:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
    user = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
    for future in admin.alter_user_scram_credentials([user]).values():
        future.result(_PATIENCE)


LOCKED: Mapping[str, Kind] = {PENSTOCK: _penstock, APACHE_KAFKA: _apache_kafka}
