"""TLS of a server: which clients get in, and what becomes of files that are exchanged."""

import socket
import ssl
import threading
from pathlib import Path

import pytest

from ground.tls.client import BadTls, ClientTls, Tls
from ground.tls.server import ClientCertificates, ListenerTls, ServerTls
from harness.logins.certificates import Authority, Signed


def meet(server: ServerTls, client: Tls) -> str:
    """Whose certificate the client shows, to the server; "" for none."""
    here, there = socket.socketpair()
    seen: list[str] = []

    def accept() -> None:
        try:
            with server.context.wrap_socket(here, server_side=True) as connection:
                shown = connection.getpeercert() or {}
                subject = dict(each[0] for each in shown.get("subject", ()))
                connection.sendall(b"!")
                seen.append(str(subject.get("commonName", "")))
        except OSError:
            here.close()

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        tls = ClientTls(client)
        with tls.context.wrap_socket(there, server_hostname="localhost") as connection:
            if connection.recv(1) != b"!":
                raise ssl.SSLError("refused")
    finally:
        there.close()
        thread.join()
    return seen[0]


def shown(signed: Signed) -> tuple[str, str]:
    return str(signed.certificate), str(signed.key)


def test_certificates_of_clients_are_required_asked_for_or_not(tmp_path: Path) -> None:
    one, other = Authority(tmp_path / "one"), Authority(tmp_path / "other")
    certificate, key = shown(one.sign("server"))
    its = Tls(ca=str(one.ca))
    mine = Tls(
        ca=str(one.ca), **dict(zip(("certificate", "key"), shown(one.sign("me")), strict=True))
    )
    theirs = Tls(
        ca=str(one.ca), **dict(zip(("certificate", "key"), shown(other.sign("them")), strict=True))
    )
    anybody = ServerTls(ListenerTls(certificate=certificate, key=key))
    assert meet(anybody, its) == ""
    required = ServerTls(ListenerTls(certificate=certificate, key=key, client_ca=str(one.ca)))
    assert meet(required, mine) == "me"
    asked = ListenerTls(
        certificate=certificate,
        key=key,
        client_ca=str(one.ca),
        client_certificates=ClientCertificates.ASKED,
    )
    assert meet(ServerTls(asked), mine) == "me"
    assert meet(ServerTls(asked), its) == ""
    for server, client in ((required, its), (required, theirs), (ServerTls(asked), theirs)):
        with pytest.raises(OSError):
            meet(server, client)


def test_a_certificate_that_was_revoked(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = shown(authority.sign("server"))
    good, lost = authority.sign("good"), authority.sign("lost")
    server = ServerTls(
        ListenerTls(
            certificate=certificate,
            key=key,
            client_ca=str(authority.ca),
            revoked=str(authority.revoke(lost)),
        )
    )
    ca = str(authority.ca)
    assert meet(server, Tls(ca=ca, certificate=str(good.both))) == "good"
    with pytest.raises(OSError):
        meet(server, Tls(ca=ca, certificate=str(lost.both)))


@pytest.mark.parametrize("key", ["certificate", "client_ca", "revoked"])
def test_a_file_that_is_none(key: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, its_key = shown(authority.sign("server"))
    files = {"certificate": certificate, "key": its_key, "client_ca": str(authority.ca)}
    nonsense = tmp_path / "nonsense"
    nonsense.write_text("nonsense")
    with pytest.raises(BadTls, match=f"`{key}` {nonsense}"):
        _ = ServerTls(ListenerTls(**{**files, key: str(nonsense)})).context  # type: ignore[arg-type]
