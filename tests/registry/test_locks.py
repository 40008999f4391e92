"""A registry behind locks, as clients of every kind meet it."""

import http.client
import json
import socket
import ssl
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ground.http.client import HttpClient, HttpError, parse_url
from ground.http.security import HttpSecurity
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from registry.http.routes import _TABLE, NEEDED
from schemas.errors import RegistryRefused
from schemas.registry_client import RegistryClient
from schemas.remote.address import RegistryAddress
from tests.registry.locked import SCHEMA, Locks, ask, log_of


@pytest.fixture(scope="module")
def locks(tmp_path_factory: pytest.TempPathFactory) -> Locks:
    return Locks(tmp_path_factory.mktemp("locks"))


@pytest.fixture(scope="module")
def registry(
    locks: Locks, tmp_path_factory: pytest.TempPathFactory, running_broker: BrokerProcess
) -> Iterator[RegistryProcess]:
    """With a schema that alice may read, one that she may not, and one that is in both places."""
    settings = {"topic": f"_schemas_{uuid.uuid4().hex[:12]}"}
    directory = tmp_path_factory.mktemp("locked-registry")
    with locks.registry(directory, running_broker.bootstrap, settings=settings) as running:
        assert running.register("pay-ments", "string").status == 200
        assert running.register("secret", "bytes").status == 200
        assert running.register("shared", "int").status == 200
        assert running.register("pay-shared", "int").status == 200
        yield running


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Locks:
    """Of a registry whose files change."""
    return Locks(tmp_path_factory.mktemp("own-locks"))


@pytest.fixture(scope="module")
def own_registry(
    own: Locks, tmp_path_factory: pytest.TempPathFactory, running_broker: BrokerProcess
) -> Iterator[RegistryProcess]:
    settings = {
        "topic": f"_schemas_{uuid.uuid4().hex[:12]}",
        "limits": {"handshake_seconds": 1.0, "handshakes_of_a_host": 3},
    }
    directory = tmp_path_factory.mktemp("own-registry")
    with own.registry(directory, running_broker.bootstrap, settings=settings) as running:
        yield running


def client_of(registry: RegistryProcess, access: HttpSecurity) -> RegistryClient:
    return RegistryClient(
        RegistryAddress(registry.url, access), patience_seconds=0, first_contact_seconds=0
    )


# Who gets in


def test_nobody_gets_in_without_a_login(registry: RegistryProcess, locks: Locks) -> None:
    nobody = HttpSecurity(tls=locks.tls)
    context = ssl.create_default_context(cafile=str(locks.authority.ca))
    connection = http.client.HTTPSConnection("127.0.0.1", registry.port, context=context)
    connection.request("GET", "/subjects")
    answer = connection.getresponse()
    assert answer.status == 401
    assert json.loads(answer.read())["error_code"] == 40101
    challenges = answer.headers.get_all("WWW-Authenticate")
    assert challenges is not None
    assert [each.split()[0] for each in challenges] == ["Basic", "Bearer"]
    for page, status in (("/healthz", 200), ("/readyz", 200), ("/metrics", 401), ("/no", 401)):
        connection.request("GET", page)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status, page
    connection.close()
    with client_of(registry, nobody) as client, pytest.raises(RegistryRefused) as refused:
        client.subjects()
    assert "registry_security" in str(refused.value)


def test_a_password_a_token_and_a_certificate_open_the_door(
    registry: RegistryProcess, locks: Locks
) -> None:
    for access in (locks.login("alice"), locks.token(), locks.certificate):
        with client_of(registry, access) as client:
            names = client.subjects()
            assert {"pay-ments", "pay-shared"} <= set(names)
            assert "secret" not in names
    assert ask(registry, locks.login("root"), "GET", "/metrics")[0] == 200


@pytest.mark.parametrize("wrong", ["password", "user", "token", "scheme", "base64", "colon"])
def test_what_is_wrong_is_refused_in_one_line_without_the_secret(
    registry: RegistryProcess, locks: Locks, wrong: str
) -> None:
    secret = f"hidden-{uuid.uuid4().hex}"
    access, headers = HttpSecurity(tls=locks.tls), {}
    match wrong:
        case "password":
            access = locks.login("bob", secret)
        case "user":
            access = locks.login(secret, secret)
        case "token":
            access = locks.token(secret)
        case "scheme":
            headers = {"Authorization": f"Digest {secret}"}
        case "base64":
            headers = {"Authorization": f"Basic {secret}!"}
        case "colon":
            headers = {"Authorization": "Basic bm9jb2xvbg=="}
    before = log_of(registry)
    status, body = ask(registry, access, "GET", "/subjects", **headers)
    assert (status, body["error_code"]) == (401, 40101)
    said = log_of(registry)[len(before) :]
    assert said.count("refused") == 1
    assert "host=127.0.0.1" in said
    assert secret not in said
    assert secret not in str(body)


# Who is believed


def test_plain_http_gets_nothing_from_the_port_of_tls(registry: RegistryProcess) -> None:
    plain = parse_url(registry.url.replace("https:", "http:"))
    with HttpClient(plain) as client, pytest.raises(HttpError):
        client.ask("GET", "/subjects", within=20)


# What each may


def requests() -> Iterator[tuple[str, str]]:
    for path, methods in _TABLE.items():
        for method in methods:
            yield method, path


def test_every_resource_says_what_it_needs() -> None:
    resources = {each for methods in _TABLE.values() for each in methods.values()}
    assert resources == set(NEEDED)


@pytest.mark.parametrize(("method", "path"), list(requests()))
def test_who_may_do_nothing_is_refused_or_told_nothing(
    registry: RegistryProcess, locks: Locks, method: str, path: str
) -> None:
    target = path.format(subject="secret", version="1", id="2")
    body = SCHEMA if method == "POST" else {} if method == "PUT" else None
    status, answer = ask(registry, HttpSecurity(tls=locks.tls), method, target, body)
    assert (status, answer["error_code"]) == (401, 40101)
    status, answer = ask(registry, locks.login("bob"), method, target, body)
    if path in {"/", "/schemas/types", "/contexts"}:
        assert status == 200
    elif path in {"/subjects", "/schemas"}:
        assert (status, answer) == (200, [])
    else:
        assert (status, answer["error_code"]) == (403, 40301)
        assert "secret" not in answer["message"]
    assert ask(registry, locks.login("root"), "GET", "/subjects/secret/versions")[1] == [1]


def test_a_prefix_opens_what_it_says_and_no_more(registry: RegistryProcess, locks: Locks) -> None:
    alice = locks.login("alice")

    def status(method: str, path: str, body: object = None) -> int:
        return ask(registry, alice, method, path, body)[0]

    names = set(ask(registry, alice, "GET", "/subjects")[1])
    assert names == {each["subject"] for each in ask(registry, alice, "GET", "/schemas")[1]}
    assert names >= {"pay-ments", "pay-shared"}
    assert all(name.startswith("pay-") for name in names)
    assert status("POST", "/subjects/pay-new/versions", SCHEMA) == 200
    assert status("POST", "/compatibility/subjects/pay-new/versions/latest", SCHEMA) == 200
    assert status("GET", "/config/pay-new?defaultToGlobal=true") == 200
    assert status("PUT", "/config/pay-new", {"compatibility": "NONE"}) == 403
    assert status("PUT", "/mode/pay-new", {"mode": "READONLY"}) == 403
    assert status("DELETE", "/subjects/pay-new") == 403
    assert [status("GET", "/config"), status("GET", "/mode")] == [403, 403]
    assert [
        status("GET", f"/subjects/{each}/versions") for each in ("secret", "%3A.%3Asecret")
    ] == [
        403,
        403,
    ]
    assert status("POST", "/subjects/%3A.%3Asecret/versions", SCHEMA) == 403


def test_an_id_is_shown_to_who_may_read_any_place_of_it(
    registry: RegistryProcess, locks: Locks
) -> None:
    root, alice = locks.login("root"), locks.login("alice")

    def id_of(subject: str) -> int:
        found: int = ask(registry, root, "GET", f"/subjects/{subject}/versions/1")[1]["id"]
        return found

    shared, secret = id_of("shared"), id_of("secret")
    for query in ("", "?subject=shared", "?subject=secret", "?subject=pay-shared"):
        status, found = ask(registry, alice, "GET", f"/schemas/ids/{shared}{query}")
        assert (status, found["schema"]) == (200, '"int"')
        assert found.get("subject") in {None, "pay-shared"}
    assert ask(registry, alice, "GET", f"/schemas/ids/{shared}/subjects")[1] == ["pay-shared"]
    places = [{"subject": "pay-shared", "version": 1}]
    assert ask(registry, alice, "GET", f"/schemas/ids/{shared}/versions")[1] == places
    for end in ("", "/schema", "/subjects", "/versions", "?subject=secret", "?subject=pay-shared"):
        assert ask(registry, alice, "GET", f"/schemas/ids/{secret}{end}")[0] == 403


def test_nobody_reads_through_a_reference(registry: RegistryProcess, locks: Locks) -> None:
    reference = {"name": "x", "subject": "secret", "version": 1}
    body = SCHEMA | {"references": [reference]}
    for path in (
        "/subjects/pay-thief/versions",
        "/subjects/pay-ments",
        "/compatibility/subjects/pay-ments/versions/latest",
    ):
        assert ask(registry, locks.login("alice"), "POST", path, body)[0] == 403


# Who speaks for another


@pytest.mark.parametrize(
    "forged", [{"penstock-principal": "root"}, {"penstock-forwarded": "1"},
               {"Penstock-Forwarded": "1", "Penstock-Principal": "root"}],
)  # fmt: skip
def test_a_forged_word_for_another_is_refused(
    registry: RegistryProcess, locks: Locks, forged: dict[str, str]
) -> None:
    for access in (locks.login("alice"), locks.login("root"), locks.certificate, locks.token()):
        path = "/subjects/pay-forged/versions"
        status, answer = ask(registry, access, "POST", path, SCHEMA, **forged)
        assert (status, answer["error_code"]) == (403, 40302)
    nobody = HttpSecurity(tls=locks.tls)
    assert ask(registry, nobody, "DELETE", "/subjects/secret", **forged)[0] == 401
    assert ask(registry, locks.login("root"), "GET", "/subjects/pay-forged/versions")[0] == 404
    assert "forwards for others" in log_of(registry)


def _metric(page: str, name: str) -> float:
    (line,) = (line for line in page.splitlines() if line.startswith(f"{name} "))
    return float(line.split()[1])


def ends(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


# Certificates that change


def test_handshakes_that_never_end_keep_nobody_out(own_registry: RegistryProcess) -> None:
    with ExitStack() as silent:
        connections = [
            silent.enter_context(socket.create_connection(("127.0.0.1", own_registry.port)))
            for _ in range(10)
        ]
        for each in connections:
            each.settimeout(60)
        assert [ends(each) for each in connections] == [True] * 10  # some at once
        wait_until(own_registry.ready, within=60, what="served again")
        body = own_registry.ask("GET", "/metrics").body
        # Or more: on a busy machine one of ours may take longer than its second, too.
        assert _metric(body, "penstock_registry_handshakes_failed_total") >= 10
        assert _metric(body, "penstock_registry_insecure") == 0


def test_who_is_open_to_anybody_says_so(tmp_path: Path, running_broker: BrokerProcess) -> None:
    settings = {
        "topic": f"_schemas_{uuid.uuid4().hex[:12]}",
        "host": "0.0.0.0",
        "insecure": True,
    }
    with RegistryProcess(
        tmp_path / "r", brokers=running_broker.bootstrap, settings=settings
    ) as registry:
        assert "insecure: reachable by other machines" in log_of(registry)
        assert "penstock_registry_insecure 1.0" in registry.ask("GET", "/metrics").body
