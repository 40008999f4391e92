"""Who sees a program's pages: by token, by certificate, in the clear and by TLS."""

import hashlib
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from ground.http.client import HttpAnswer, HttpClient, HttpError, HttpUrl
from ground.http.exposition import door_families
from ground.http.page_door import BadLocks, PageDoor
from ground.http.page_locks import PageLocks, check_pages
from ground.http.page_server import Page, PageServer, readiness_page, text_page
from ground.http.security import HttpSecurity, access_to
from ground.network.refusals import Refusals
from ground.tls.client import Tls
from ground.tls.server import ClientCertificates, ListenerTls
from harness.logins.certificates import Authority, Signed

TOKEN = "a-token-of-prometheus"
METRICS = b"penstock_lag 7\n"


class Files(NamedTuple):
    """Of a site: an authority, what the server shows, a client of ours, and tokens."""

    authority: Authority
    server: Signed
    client: Signed
    tokens: Path
    token: Path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    directory = tmp_path_factory.mktemp("site")
    authority = Authority(directory / "authority")
    tokens, token = directory / "tokens", directory / "token"
    tokens.write_text(line("prometheus", TOKEN))
    token.write_text(TOKEN + "\n")
    return Files(authority, authority.sign("server"), authority.sign("me"), tokens, token)


def line(name: str, token: str) -> str:
    return f"{name}:sha256:{hashlib.sha256(token.encode()).hexdigest()}\n"


def tls(files: Files, clients: ClientCertificates | None = None) -> ListenerTls:
    certificate, key = str(files.server.certificate), str(files.server.key)
    if clients is None:
        return ListenerTls(certificate=certificate, key=key)
    return ListenerTls(
        certificate=certificate,
        key=key,
        client_ca=str(files.authority.ca),
        client_certificates=clients,
    )


@contextmanager
def served(locks: PageLocks, refusals: Refusals | None = None, why: str = "") -> Iterator[HttpUrl]:
    """`why` it is not ready."""
    pages: dict[str, Callable[[], Page]] = {
        "/metrics": lambda: Page(METRICS),
        "/status": lambda: Page(b"x" * 4_000_000),
        "/healthz": lambda: text_page("alive\nzookeeper: connected"),
        "/readyz": lambda: readiness_page(why, ["lost: page_views-0"]),
    }
    server = PageServer("127.0.0.1", 0, pages, PageDoor(locks, refusals or Refusals()))
    server.start()
    try:
        yield HttpUrl("https" if locks.tls else "http", "127.0.0.1", server.port)
    finally:
        server.stop()


def ask(at: HttpUrl, path: str, security: HttpSecurity) -> HttpAnswer:
    with HttpClient(at, access=access_to(security)) as client:
        return client.ask("GET", path, within=20)


def nobody(files: Files) -> HttpSecurity:
    return HttpSecurity(tls=Tls(ca=str(files.authority.ca)))


def with_token(files: Files) -> HttpSecurity:
    return HttpSecurity(tls=Tls(ca=str(files.authority.ca)), token_file=str(files.token))


def with_certificate(files: Files) -> HttpSecurity:
    shown = Tls(
        ca=str(files.authority.ca),
        certificate=str(files.client.certificate),
        key=str(files.client.key),
    )
    return HttpSecurity(tls=shown)


def test_a_token_opens_what_nobody_else_sees(files: Files) -> None:
    refusals = Refusals()
    with served(PageLocks(tls=tls(files), tokens_file=str(files.tokens)), refusals) as at:
        for path, size in (("/metrics", len(METRICS)), ("/status", 4_000_000)):
            assert len(ask(at, path, with_token(files)).body) == size
            refused = ask(at, path, nobody(files))
            assert (refused.status, refused.body) == (401, b"authentication required\n")
        assert ask(at, "/nothing", nobody(files)).status == 401
        assert ask(at, "/nothing", with_token(files)).status == 404
    assert refusals.counts == {"authentication required": 3}


def test_supervisors_are_told_whether_it_lives_and_no_more(files: Files) -> None:
    locks = PageLocks(tls=tls(files), tokens_file=str(files.tokens))
    with served(locks, why="topic orders has no schema") as at:
        assert ask(at, "/healthz", nobody(files)).body == b"ok\n"
        unready = ask(at, "/readyz", nobody(files))
        assert (unready.status, unready.body) == (503, b"service unavailable\n")
        known = ask(at, "/readyz", with_token(files))
        assert known.body == b"not ready: topic orders has no schema\nlost: page_views-0\n"
        assert b"zookeeper" in ask(at, "/healthz", with_token(files)).body


def test_a_certificate_is_a_login(files: Files) -> None:
    asked = tls(files, ClientCertificates.ASKED)
    with served(PageLocks(tls=asked)) as at:
        assert ask(at, "/metrics", with_certificate(files)).body == METRICS
        assert ask(at, "/metrics", nobody(files)).status == 403
        # What is shown must be right, whatever else is.
        assert ask(at, "/metrics", with_token(files)).status == 403
        assert ask(at, "/healthz", nobody(files)).status == 200
    with served(PageLocks(tls=asked, tokens_file=str(files.tokens))) as at:
        assert ask(at, "/metrics", with_certificate(files)).body == METRICS
        assert ask(at, "/metrics", with_token(files)).body == METRICS


def test_without_a_required_certificate_there_is_no_connection(
    files: Files, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    refusals = Refusals()
    required = tls(files, ClientCertificates.REQUIRED)
    stranger = Authority(tmp_path / "other").sign("me")
    theirs = Tls(
        ca=str(files.authority.ca), certificate=str(stranger.certificate), key=str(stranger.key)
    )
    with caplog.at_level(logging.WARNING), served(PageLocks(tls=required), refusals) as at:
        assert ask(at, "/metrics", with_certificate(files)).body == METRICS
        for security in (nobody(files), HttpSecurity(tls=theirs)):
            with pytest.raises(HttpError):
                ask(at, "/healthz", security)
        assert ask(at, "/metrics", with_certificate(files)).body == METRICS
    assert refusals.counts == {"no TLS handshake": 2}
    assert len(caplog.messages) == 1  # a minute, for one address
    assert "peer did not return a certificate" in caplog.messages[0]


WRONG = (
    "Authorization: Bearer another-token",
    "Authorization: Bearer",
    "Authorization: Basic cHJvbWV0aGV1czp4",
    f"Authorization: Bearer {TOKEN}\r\nAuthorization: Bearer {TOKEN}",
    f"Authorization: {TOKEN}",
    f"X-Authorization: Bearer {TOKEN}",
    f"Authorization : Bearer {TOKEN}",
    f"Cookie: Bearer {TOKEN}",
)


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_login_opens_nothing(files: Files, wrong: str) -> None:
    with served(PageLocks(tokens_file=str(files.tokens))) as at:
        for method, target in (
            ("GET", "/metrics"), ("HEAD", "/metrics"), ("GET", "/status?x=/healthz"),
            ("GET", "/healthz/../metrics"), ("GET", f"{at}/metrics"), ("GET", "*"),
        ):  # fmt: skip
            said = sent(at.port, f"{method} {target} HTTP/1.1\r\n{wrong}\r\n\r\n".encode())
            assert said.startswith(b"HTTP/1.1 401 "), target
            assert b'\r\nWWW-Authenticate: Bearer realm="penstock"\r\n' in said
            assert METRICS not in said


def sent(port: int, data: bytes) -> bytes:
    """What the server says to it."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(data)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def test_tokens_and_certificates_are_exchanged(files: Files, tmp_path: Path) -> None:
    tokens, mine = tmp_path / "tokens", tmp_path / "mine"
    other = Authority(tmp_path / "other")
    tokens.write_text(line("prometheus", "before"))
    mine.write_text("before")
    both = tmp_path / "server.pem"
    both.write_bytes(files.server.both.read_bytes())
    before = HttpSecurity(tls=Tls(ca=str(files.authority.ca)), token_file=str(mine))
    after = HttpSecurity(tls=Tls(ca=str(other.ca)), token_file=str(mine))
    locks = PageLocks(tls=ListenerTls(certificate=str(both)), tokens_file=str(tokens))
    with served(locks) as at:
        assert ask(at, "/metrics", before).status == 200
        tokens.write_text(line("prometheus", "after, and longer"))
        assert ask(at, "/metrics", before).status == 401
        mine.write_text("after, and longer")
        assert ask(at, "/metrics", before).status == 200
        both.write_bytes(other.sign("server").both.read_bytes())
        with pytest.raises(HttpError):
            ask(at, "/metrics", before)
        assert ask(at, "/metrics", after).status == 200
        # What cannot be used leaves the old ones in force.
        tokens.write_text("prometheus:after\n")
        both.write_text("nothing of the kind")
        assert ask(at, "/metrics", after).status == 200


def test_who_speaks_no_tls_gets_nothing(files: Files) -> None:
    refusals = Refusals()
    locks = PageLocks(tls=tls(files), tokens_file=str(files.tokens))
    with served(locks, refusals) as at:
        shown = f"GET /metrics HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        # What is left unread resets the connection; before that there is at most an alert of TLS.
        with suppress(ConnectionResetError):
            assert not sent(at.port, shown.encode()).startswith(b"HTTP")
        assert ask(at, "/metrics", with_token(files)).body == METRICS
    assert refusals.counts == {"no TLS handshake": 1}


def test_handshakes_that_do_not_go_on_keep_nobody_out(files: Files) -> None:
    with served(PageLocks(tls=tls(files), tokens_file=str(files.tokens))) as at:
        slow = [socket.create_connection(("127.0.0.1", at.port), timeout=20) for _ in range(12)]
        began = time.monotonic()
        assert ask(at, "/metrics", with_token(files)).body == METRICS
        assert slow[0].recv(1) == b""  # cut off in time
        assert time.monotonic() - began < 60
        for each in slow:
            each.close()


def test_files_that_could_never_be_used_are_named(files: Files, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    with pytest.raises(BadLocks, match=r"`http\.tls`: `certificate` .*missing: no such file"):
        PageDoor(PageLocks(tls=ListenerTls(certificate=missing)), Refusals())
    with pytest.raises(BadLocks, match=r"`http\.tokens_file`: .*missing cannot be read"):
        PageDoor(PageLocks(tokens_file=missing), Refusals())


def test_which_addresses_need_which_locks() -> None:
    in_tls = ListenerTls(certificate="/c")
    with_clients = ListenerTls(certificate="/c", client_ca="/ca")
    enough = (PageLocks(tls=in_tls, tokens_file="/t"), PageLocks(tls=with_clients))
    too_few = (PageLocks(), PageLocks(tls=in_tls), PageLocks(tokens_file="/t"))
    for locks in (*enough, *too_few):
        check_pages("127.0.0.1", locks, insecure=False)
        check_pages("10.0.0.1", locks, insecure=True)
    for locks in enough:
        check_pages("10.0.0.1", locks, insecure=False)
        assert not locks.are_open("10.0.0.1")
    for locks in too_few:
        with pytest.raises(ValueError, match="or set `insecure: true`"):
            check_pages("0.0.0.0", locks, insecure=False)
        assert locks.are_open("0.0.0.0")


def test_what_is_refused_is_in_the_metrics() -> None:
    insecure, refused = door_families("x_", Counter({"unknown token": 3}), is_open=True)
    assert [(each.name, each.value) for each in insecure.samples] == [("x_insecure", 1)]
    (sample,) = refused.samples
    assert sample.name == "x_pages_refused_total"
    assert (sample.labels, sample.value) == ({"why": "unknown token"}, 3)
