"""Broker, registry and audit, looked at as testssl.sh looks: one table for all three.

    refused   each protocol before TLS 1.2, each sort of weak cipher suites, compression, a
              downgrade, renegotiation; a certificate of another authority or for another name
    taken     TLS 1.2 and 1.3 with what keeps its secrets

Greetings are made by hand, so that what is refused was really offered.
"""

import shutil
import socket
import ssl
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.logins.certificates import Authority
from harness.penstock.broker import BrokerProcess
from harness.processes.server_process import free_ports
from tests.audit.http.locked import LockedAudit
from tests.registry.locked import Locks
from tests.system.client_hello import (
    AEAD,
    DEFLATE,
    FALLBACK,
    HEARTBEAT,
    NO_COMPRESSION,
    RENEGOTIATION,
    SSL3,
    SUITES,
    TLS1_0,
    TLS1_1,
    TLS1_2,
    TLS1_3,
    Refused,
    Taken,
    ask,
    hello,
    hello_of_ssl2,
)

SERVERS: Final = ("broker", "registry", "audit")
WEAK: Final = tuple(code for codes in SUITES.values() for code in codes)
EVERY: Final = (*WEAK, *AEAD)
PROTOCOL_VERSION, HANDSHAKE_FAILURE, FALLBACK_REFUSED = 70, 40, 86
ILLEGAL, DECODE_ERROR = 47, 50
CLOSED: Final = 0

# What is offered, and by which alerts that may be refused.
REFUSED: Final[dict[str, tuple[bytes, set[int]]]] = {
    "SSL 2": (hello_of_ssl2(), {PROTOCOL_VERSION, HANDSHAKE_FAILURE}),
    "SSL 3": (hello(SSL3, EVERY), {PROTOCOL_VERSION, HANDSHAKE_FAILURE}),
    "TLS 1.0": (hello(TLS1_0, EVERY), {PROTOCOL_VERSION}),
    "TLS 1.1": (hello(TLS1_1, EVERY), {PROTOCOL_VERSION}),
    **{
        f"TLS 1.2, {name}": (hello(TLS1_2, suites), {HANDSHAKE_FAILURE})
        for name, suites in SUITES.items()
    },
    "TLS 1.3 with the suites of 1.2": (
        hello(TLS1_2, EVERY, newest=TLS1_3),
        {HANDSHAKE_FAILURE},
    ),
    "TLS 1.3 with short tags": (
        hello(TLS1_2, (0x1304, 0x1305), newest=TLS1_3),
        {HANDSHAKE_FAILURE},
    ),
    "only compressed": (
        hello(TLS1_2, AEAD, compressions=(DEFLATE,)),
        {HANDSHAKE_FAILURE, ILLEGAL, DECODE_ERROR},
    ),
    "a downgrade": (hello(TLS1_2, (*AEAD, FALLBACK)), {FALLBACK_REFUSED}),
}


class Server(NamedTuple):
    """Where it listens, and who has signed its certificate."""

    port: int
    ca: Path


@pytest.fixture(scope="module")
def servers(
    zookeeper: EmbeddedZooKeeper,
    running_broker: BrokerProcess,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Server]]:
    directory = tmp_path_factory.mktemp("outside")
    authority = Authority(directory / "authority")
    signed = authority.sign("broker")
    clear, tls = free_ports(2)
    shown = {"certificate": str(signed.certificate), "key": str(signed.key)}
    listeners = [{"name": "LOCAL", "port": clear}, {"name": "TLS", "port": tls, "tls": shown}]
    broker = BrokerProcess(
        directory / "broker",
        zookeeper=f"{zookeeper.address}/outside",
        settings={"listeners": listeners},
    )
    locks = Locks(directory / "locks")
    registry = locks.registry(
        directory / "registry",
        running_broker.bootstrap,
        settings={"topic": f"_schemas_{uuid.uuid4().hex[:12]}"},
    )
    audit = LockedAudit(directory / "audit")
    with ExitStack() as stack:
        for each in (broker, registry, audit):
            stack.enter_context(each)
        yield {
            "broker": Server(tls, authority.ca),
            "registry": Server(registry.port, locks.authority.ca),
            "audit": Server(audit.port, audit.ca),
        }


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, servers: dict[str, Server]) -> Server:
    return servers[request.param]


@pytest.mark.parametrize("offered", REFUSED)
def test_what_is_weak_is_refused(server: Server, offered: str) -> None:
    greeting, alerts = REFUSED[offered]
    answer = ask(server.port, greeting)
    assert isinstance(answer, Refused), answer
    assert answer.alert in {CLOSED, *alerts}  # some close without a word


def test_of_everything_the_best_is_taken(server: Server) -> None:
    offered = {HEARTBEAT: b"\1", RENEGOTIATION: b"\0"}
    greeting = hello(TLS1_2, EVERY, compressions=(DEFLATE, NO_COMPRESSION), more=offered)
    answer = ask(server.port, greeting)
    assert isinstance(answer, Taken), answer
    assert answer.version == TLS1_2
    assert answer.suite in AEAD
    assert answer.compression == NO_COMPRESSION
    assert HEARTBEAT not in answer.extensions
    assert RENEGOTIATION in answer.extensions  # by whom it was greeted, nobody else can go on


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_certificate_leads_to_the_authority(server: Server, version: ssl.TLSVersion) -> None:
    shown, spoken = shown_to(server.ca, server.port, version)
    certificate = x509.load_der_x509_certificate(shown)
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.key_size >= 256
    assert certificate.signature_hash_algorithm is not None
    assert certificate.signature_hash_algorithm.digest_size >= 32
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert life < timedelta(days=398)
    assert certificate.not_valid_before_utc <= datetime.now(UTC) <= certificate.not_valid_after_utc
    usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert ExtendedKeyUsageOID.SERVER_AUTH in usages
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert not constraints.ca
    assert spoken == {"TLSv1_2": "TLSv1.2", "TLSv1_3": "TLSv1.3"}[version.name]


def shown_to(
    ca: Path, port: int, version: ssl.TLSVersion, name: str = "localhost"
) -> tuple[bytes, str]:
    """The certificate, and the version that is spoken, if all is believed."""
    context = ssl.create_default_context(cafile=str(ca))
    context.minimum_version = context.maximum_version = version
    with (
        socket.create_connection(("127.0.0.1", port), timeout=20) as opened,
        context.wrap_socket(opened, server_hostname=name) as connection,
    ):
        return connection.getpeercert(binary_form=True) or b"", connection.version() or ""


def test_nobody_believes_another_authority_or_name(
    servers: dict[str, Server], server: Server
) -> None:
    other = next(each for each in servers.values() if each.ca != server.ca)
    with pytest.raises(
        ssl.SSLCertVerificationError, match=r"unable to get local issuer|self-signed"
    ):
        shown_to(other.ca, server.port, ssl.TLSVersion.TLSv1_3)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shown_to(server.ca, server.port, ssl.TLSVersion.TLSv1_3, "elsewhere.example")


def test_nobody_renegotiates(server: Server) -> None:
    """Which TLS 1.2 could, and which makes a server work."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to renegotiate: apt install openssl")
    with subprocess.Popen(
        [
            openssl, "s_client", "-connect", f"127.0.0.1:{server.port}", "-tls1_2",
            "-servername", "localhost", "-CAfile", str(server.ca), "-verify_return_error",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as client:  # fmt: skip
        assert client.stdin is not None
        assert client.stdout is not None
        try:
            client.stdin.write("R\n")
            client.stdin.flush()
            said = client.stdout.read()  # until it gives up
        finally:
            client.kill()
    assert "Verify return code: 0 (ok)" in said
    assert "Secure Renegotiation IS supported" in said
    assert "Compression: NONE" in said
    assert "RENEGOTIATING" in said
    assert "no renegotiation" in said, said[-2000:]
