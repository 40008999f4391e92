"""Who gets in, and who does not: every path of an audit behind locks, tried in every wrong way."""

import http.client
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
import pytest

from audit.api.answers import Problem
from audit.http.access.access_control import HEALTH, STATIC
from audit.http.access.login_paths import LOGIN_PATHS
from audit.http.resources import RESOURCES
from audit.http.statements import STATEMENTS
from ground.logins.password_file import SlowHash
from harness.penstock.audit import AuditProcess
from harness.processes.waiting import wait_until
from tests.audit.http.locked import (
    ADDRESSES,
    ALICE,
    BOB,
    COOKIE,
    FORM,
    OLGA,
    PROXY,
    TOKEN,
    LockedAudit,
    basic,
    bearer,
)

OPEN: Final = {"/healthz", "/readyz", "/login", "/logout", "/session"}
SAID: Final = [each.path for each in STATEMENTS]
BEHIND: Final = [
    *(each.path for each in RESOURCES),
    *SAID,
    *("/", "/api/v1/messages", "/api/openapi.json", "/api/v1/stream"),
    *("/metrics", "/nothing", "/findings"),
]
ALMOST_OPEN: Final = ["/login/", "//login", "/healthz/x"]
ASK_AT_ONCE: Final = 40


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedAudit]:
    with LockedAudit(tmp_path_factory.mktemp("locked")) as audit:
        yield audit


@pytest.fixture(scope="module")
def its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedAudit]:
    """For those who change what lets people in."""
    with LockedAudit(tmp_path_factory.mktemp("its-own")) as audit:
        yield audit


@pytest.fixture
def changing(its_own: LockedAudit) -> LockedAudit:
    its_own.write_users(ALICE, BOB)
    its_own.write_tokens({"prometheus": TOKEN})
    return its_own


@cache
def session_of_bob(audit: LockedAudit) -> str:
    """A cookie. Of others there are so many sessions that old ones end."""
    return audit.session(BOB)


@cache
def ended(audit: LockedAudit) -> str:
    cookie = audit.session(OLGA)
    assert audit.post("/logout", {}, cookie=cookie).status == 303
    return cookie


Shown = Callable[[LockedAudit], Mapping[str, str]]
WRONG: Final[Mapping[str, tuple[Shown, int]]] = {
    "nobody": (lambda _: {}, 401),
    "a session that was logged out": (lambda audit: {"cookie": ended(audit)}, 401),
    "a session that never was": (
        lambda _: {"cookie": f"{COOKIE}={secrets.token_urlsafe(32)}"},
        401,
    ),
    "a cookie of another name": (
        lambda audit: {"cookie": session_of_bob(audit).replace("__Host-", "")},
        401,
    ),
    "a wrong token": (lambda _: bearer(secrets.token_urlsafe(32)), 401),
    "a token that is too short": (lambda _: bearer("x"), 401),
    "a wrong password": (lambda _: basic((secrets.token_hex(8), "guess")), 401),
    "no password": (lambda _: {"authorization": "Basic !!"}, 401),
    "another scheme": (lambda _: {"authorization": "Digest username=alice"}, 401),
    "a forged header": (lambda _: {"X-Forwarded-User": "alice"}, 401),
    "another name": (lambda _: {"host": "evil.example:80", **bearer(TOKEN)}, 421),
}


def test_what_is_open_is_what_this_table_says() -> None:
    assert HEALTH | LOGIN_PATHS == OPEN
    assert STATIC == "/static/"


@pytest.mark.parametrize("how", WRONG)
@pytest.mark.parametrize("path", [*BEHIND, *ALMOST_OPEN])
def test_nobody_gets_in_by(locked: LockedAudit, path: str, how: str) -> None:
    shown, status = WRONG[how]
    answer = locked.ask(path, headers=shown(locked), address=next(ADDRESSES))
    assert answer.status == status
    assert msgspec.json.decode(answer.body, type=Problem).error
    assert answer.headers["cache-control"] == "no-store"
    assert ("www-authenticate" in answer.headers) == (status == 401)


@pytest.mark.parametrize("how", WRONG)
def test_what_is_refused_is_one_line_without_secrets(quiet: LockedAudit, how: str) -> None:
    address, wrong = next(ADDRESSES), dict(WRONG[how][0](quiet))
    for _ in range(3):
        quiet.ask("/metrics", headers=wrong, address=address)
    (line,) = quiet.lines_about(address)
    assert " refused why=" in line
    assert "asked='GET /metrics'" in line
    shown = wrong.get("authorization", wrong.get("cookie", "")).rpartition(" ")[2]
    assert len(shown) < 5 or shown.removeprefix(f"{COOKIE}=") not in line


@pytest.mark.parametrize("path", [*BEHIND, *ALMOST_OPEN])
def test_a_page_of_another_site_changes_nothing(locked: LockedAudit, path: str) -> None:
    cookie = {"cookie": session_of_bob(locked)}

    def status(method: str, **headers: str) -> int:
        return locked.ask(path, method=method, headers=cookie | headers).status

    assert [status("POST"), status("POST", origin="null")] == [403, 403]
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert status(method, origin="https://evil.example") == 403
        own = status(method, origin=locked.url)
        assert own == (403 if path in SAID and method == "POST" else 405)
    assert locked.ask("/session", headers=cookie).body == (
        b'{"user":"bob","by":"session","operator":false}'
    )


@pytest.mark.parametrize("path", [each for each in BEHIND if each != "/api/v1/stream"])
def test_who_is_known_gets_in(locked: LockedAudit, path: str) -> None:
    for shown in ({"cookie": session_of_bob(locked)}, None, basic(BOB)):
        assert locked.ask(path, headers=shown).status not in {401, 403, 421, 429}


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("/", "./login"),
        ("/findings", "./login?next=%2Ffindings"),
        ("/topic/x?a=b&c", "../login?next=%2Ftopic%2Fx%3Fa%3Db%26c"),
    ],
)
def test_people_are_led_to_the_login(locked: LockedAudit, path: str, there: str) -> None:
    answer = locked.ask(path, headers={"accept": "text/html,*/*"})
    assert (answer.status, answer.headers["location"]) == (303, there)
    for program in ("/api/v1/topics", "/metrics"):
        assert locked.ask(program, headers={"accept": "text/html"}).status == 401


@pytest.mark.parametrize(
    ("asked", "led"),
    [
        ("/", "./"),
        ("/#/topic?topic=clicks", "./#/topic?topic=clicks"),
        ("/findings?x=y", "./findings?x=y"),
        ("//evil.example/", "./"),
        ("/\\evil.example/", "./"),
        ("https://evil.example/", "./"),
        ("javascript:alert(1)", "./"),
        ("/\r\nset-cookie: a=b", "./"),
        ("/" + "x" * 5000, "./"),
        ("", "./"),
    ],
)
def test_after_the_login_one_is_where_one_wanted_to_be(
    locked: LockedAudit, asked: str, led: str
) -> None:
    answer = locked.log_in(place=asked)
    assert (answer.status, answer.headers["location"]) == (303, led)


def test_the_place_is_no_html(locked: LockedAudit) -> None:
    said = locked.ask("/login?next=/%22%3E%3Cscript%3E", headers={})
    assert said.status == 200
    assert b'value="/&quot;&gt;&lt;script&gt;"' in said.body


def test_a_cookie_is_for_this_host_and_for_no_script(locked: LockedAudit) -> None:
    first, second = (locked.log_in().headers["set-cookie"] for _ in range(2))
    assert first != second
    for each in (first, second):
        name, *rest = each.split("; ")
        assert name.startswith(f"{COOKIE}=")
        assert len(name.partition("=")[2]) >= 43  # 256 bits
        assert rest == ["Path=/", "HttpOnly", "SameSite=Strict", "Secure"]


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "", "http://{}"])
def test_nobody_is_logged_in_by_another_site(locked: LockedAudit, origin: str) -> None:
    where = origin.format(locked.url.partition("//")[2])
    answer = locked.log_in(origin=where)
    assert answer.status == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "user",
    [
        ("alice", BOB[1]),
        ("nobody", ALICE[1]),
        ("", ""),
        ("alice", "x" * 2_000),
        ("al:ice", "x"),
        ("<b>", "\0"),
        ("x" * 500, "y"),
    ],
)
def test_a_wrong_login_says_no_more_than_that(quiet: LockedAudit, user: tuple[str, str]) -> None:
    address = next(ADDRESSES)
    answer = quiet.log_in(user, address=address)
    assert answer.status == 401
    assert b"The name or the password is not right." in answer.body
    assert b"<b>" not in answer.body
    assert "set-cookie" not in answer.headers
    (said,) = quiet.lines_about(address)
    assert f"user={'alice' if user[0] == 'alice' else '-'} " in said
    assert len(user[1]) < 5 or user[1] not in said


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b'{"user":"alice"}'),
        (FORM, b"user=alice&user=bob"),
        (FORM, b"user=alice&more=1"),
        (FORM, b"%ff=%ff"),
        (FORM, b"\xff" * 10),
        (FORM, b"x" * 20_000),
    ],
)
def test_what_is_no_form_is_refused(locked: LockedAudit, kind: str, body: bytes) -> None:
    headers = {"origin": locked.url, "content-type": kind}
    answer = locked.ask("/login", method="POST", headers=headers, body=body)
    assert answer.status == 400


def test_who_guesses_waits_longer_each_time(locked: LockedAudit) -> None:
    address = next(ADDRESSES)
    found = [locked.log_in(("carol", str(each)), address=address) for each in range(6)]
    assert [each.status for each in found] == [401] * 5 + [429]
    assert 1 <= int(found[-1].headers["retry-after"]) <= 2
    token = bearer(secrets.token_urlsafe(32))
    assert locked.ask("/metrics", headers=token, address=address).status == 429
    # Whoever is right elsewhere is let in, and from there whoever has a token.
    assert locked.ask("/metrics", address=address).status == 200
    assert locked.log_in(address=next(ADDRESSES)).status == 303


def test_nobody_locks_out_another(locked: LockedAudit) -> None:
    home = next(ADDRESSES)
    assert locked.log_in(BOB, address=home).status == 303
    for _ in range(6):
        locked.log_in(("bob", "guess"), address=next(ADDRESSES))
    assert locked.log_in(BOB, address=next(ADDRESSES)).status == 429
    assert locked.log_in(BOB, address=home).status == 303


def test_a_session_ends_with_its_password_and_with_its_user(changing: LockedAudit) -> None:
    def status(shown: Mapping[str, str]) -> int:
        return changing.ask("/api/v1/topics", headers=shown).status

    alice, bob = ({"cookie": changing.session(each)} for each in (ALICE, BOB))
    changing.write_users(ALICE)
    assert [status(bob), status(basic(BOB))] == [401, 401]
    assert status(alice) == 401, "the same user, whose line has been made anew"
    alice = {"cookie": changing.session(ALICE)}
    changing.users.write_text("what is this?\n")
    assert status(alice) == 200
    assert "cannot load changed passwords, keeping the previous ones" in changing.log()


def test_a_token_counts_until_it_is_gone_from_its_file(changing: LockedAudit) -> None:
    assert changing.ask("/api/v1/topics").status == 200
    changing.write_tokens({})
    assert changing.ask("/api/v1/topics").status == 401


def test_a_stream_ends_with_its_session(locked: LockedAudit) -> None:
    cookie = locked.session()
    connection = http.client.HTTPSConnection(
        "127.0.0.1", locked.port, context=locked.trusting(), timeout=60
    )
    connection.request("GET", "/api/v1/stream", headers={"cookie": cookie})
    answer = connection.getresponse()
    assert answer.readline().startswith(b"data: ")
    assert locked.post("/logout", {}, cookie=cookie).status == 303
    began = time.monotonic()
    while answer.readline():
        assert time.monotonic() - began < 60
    connection.close()


def test_slow_passwords_do_not_stop_the_page(changing: LockedAudit) -> None:
    slow = str(SlowHash.of("x")).replace("scrypt:16384:", "scrypt:131072:")
    changing.users.write_text(f"slow:{slow}\n")
    guesses = [
        threading.Thread(target=changing.log_in, args=(("slow", "y"),), kwargs={"address": each})
        for each in (next(ADDRESSES) for _ in range(4))
    ]
    for each in guesses:
        each.start()
    answered = 0
    while any(each.is_alive() for each in guesses) and answered < ASK_AT_ONCE:
        assert changing.ask("/api/v1/topics").status == 200
        answered += 1
    for each in guesses:
        each.join()
    assert answered >= 3


def test_health_is_open_and_names_nobody(locked: LockedAudit) -> None:
    assert locked.ask("/healthz", headers={}).body == b"healthy\n"
    assert locked.ask("/readyz", headers={}).body == b"not ready\n"
    assert b"test" in locked.ask("/readyz").body


def test_what_a_browser_is_told(locked: LockedAudit) -> None:
    for path in ("/", "/login", "/api/v1/topics", "/static/js/start.js", "/healthz", "/nothing"):
        headers = locked.ask(path).headers
        assert headers["strict-transport-security"] == "max-age=31536000"
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src")
        assert headers["referrer-policy"] == "same-origin"


def test_who_does_not_speak_tls_is_not_answered(quiet: LockedAudit) -> None:
    address = next(ADDRESSES)
    at = ("127.0.0.1", quiet.port)
    with socket.create_connection(at, timeout=20, source_address=(address, 0)) as plain:
        plain.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b"HTTP/1" not in plain.recv(65_536)
    wait_until(lambda: bool(quiet.lines_about(address)), within=20, what="it is said")
    assert len(quiet.lines_about(address)) == 1


def test_handshakes_that_are_not_finished_leave_room(locked: LockedAudit) -> None:
    one = next(ADDRESSES)
    sources = [*(next(ADDRESSES) for _ in range(40)), *([one] * 40)]
    at = ("127.0.0.1", locked.port)
    silent = [socket.create_connection(at, source_address=(each, 0)) for each in sources]
    try:
        assert locked.ask("/healthz").status == 200
    finally:
        for each in silent:
            each.close()


def test_certificates_are_exchanged_while_it_runs(changing: LockedAudit) -> None:
    before = changing.shown_certificate()
    assert changing.authority.sign("audit") == changing.certificate, "into the same files"
    wait_until(lambda: changing.shown_certificate() != before, within=20, what="the new one")
    assert changing.ask("/healthz").status == 200


def test_what_was_refused_is_counted(locked: LockedAudit) -> None:
    assert locked.ask("/metrics", headers={}).status == 401
    figures = locked.ask("/metrics").body.decode()
    assert 'penstock_audit_refused_total{why="authentication required' in figures
    assert "penstock_audit_insecure 0.0" in figures
    assert "penstock_audit_sessions " in figures


def test_a_proxy_is_believed_from_its_addresses_alone(quiet: LockedAudit) -> None:
    carol = {"x-forwarded-user": "carol"}
    session = quiet.ask("/session", headers=carol, address=PROXY).body
    assert session == b'{"user":"carol","by":"proxy","operator":false}'
    assert quiet.ask("/api/v1/topics", headers=carol, address=PROXY).status == 200
    for wrong in ("", "a b", "<b>", "x" * 200):
        wrong_header = {"x-forwarded-user": wrong}
        assert quiet.ask("/metrics", headers=wrong_header, address=PROXY).status == 401
    address = next(ADDRESSES)
    assert quiet.ask("/api/v1/topics", headers=carol, address=address).status == 401
    (line,) = quiet.lines_about(address)
    assert "accepted only from the proxy" in line


@pytest.mark.parametrize("key", ["users_file", "tokens_file", "operators_file", "tls"])
def test_it_does_not_start_without_its_locks(tmp_path: Path, key: str) -> None:
    missing = str(tmp_path / "missing")
    settings = {key: {"certificate": missing} if key == "tls" else missing}
    audit = LockedAudit(tmp_path / "audit", settings=settings)
    audit.spawn()
    assert audit.process.wait(within=60) == 1
    assert f"penstock audit: `{key}`: " in audit.log()
    assert missing in audit.log()


def test_insecure_is_said_at_each_start(tmp_path: Path) -> None:
    with AuditProcess(tmp_path / "audit", settings={"insecure": True}) as audit:
        assert "insecure: " in audit.log()
        assert b"penstock_audit_insecure 1.0" in audit.ask("/metrics").body
