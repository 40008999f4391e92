"""The client of registries, against servers that answer as no registry should, and a running one.

What else it asks a real one is tested in tests/registry and tests/penstock.
"""

import json
import ssl
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from ground.http.client import HttpUrl
from harness.penstock.registry import RegistryProcess
from harness.processes.server_process import free_ports
from schemas.errors import InvalidSchema, RegistryError, RegistryNotReachable, RegistryRefused
from schemas.parsing import MAX_STORED_LENGTH
from schemas.registry_client import RegistryClient
from schemas.remote.answers import CompatibilityVerdict, Reference, RegisteredSchema, SubjectVersion
from schemas.remote.urls import parse_urls
from tests.schemas.answering import Answer, Answering, answering, hangs_up, refuses, says, sends
from tests.schemas.avro_texts import field, record

OK = b"HTTP/1.1 200 OK\r\n"
INT = '"int"'


def client(urls: str, *, patience: float = 0.0, attempt: float = 5.0) -> RegistryClient:
    return RegistryClient(urls, patience_seconds=patience, attempt_seconds=attempt)


def nobody() -> str:
    return f"http://127.0.0.1:{free_ports(1)[0]}"


# What is asked, what is understood


def test_what_confluents_newest_registry_says_is_understood() -> None:
    newest = {
        "subject": "B",
        "version": 1,
        "id": 2,
        "guid": "2200aa96-f81f-2155-3240-da46ad8f24ed",
        "schemaType": "AVRO",
        "references": [{"name": "x.A", "subject": "x.A", "version": 1}],
        "schema": INT,
        "ts": 1795173767505,
        "deleted": False,
    }
    oldest = {"subject": "B", "version": 1, "id": 2, "schema": INT}
    with answering(says(newest), says(oldest)) as server, client(server.url) as registry:
        references = (Reference("x.A", "x.A", 1),)
        one = RegisteredSchema(subject="B", version=1, id=2, text=INT, references=references)
        assert registry.latest("B") == one
        other = RegisteredSchema(subject="B", version=1, id=2, text=INT)
        assert registry.lookup("B", INT, references) == other
        assert [(each.method, each.path) for each in server.asked] == [
            ("GET", "/subjects/B/versions/latest"),
            ("POST", "/subjects/B"),
        ]
        assert server.asked[1].document == {
            "schema": INT,
            "references": [{"name": "x.A", "subject": "x.A", "version": 1}],
        }


def test_names_of_subjects_never_become_paths() -> None:
    with answering(says([1])) as server, client(f"{server.url}/proxy/") as registry:
        for name in ("a/../b", "a b?c=d#e", "é", "%2e", "\udc80"):
            registry.versions(name)
        assert [path.removeprefix("/proxy/subjects/") for path in server.paths] == [
            "a%2F..%2Fb/versions",
            "a%20b%3Fc%3Dd%23e/versions",
            "%C3%A9/versions",
            "%252e/versions",
            "%ED%B2%80/versions",
        ]


def test_what_is_not_there_is_none_and_what_is_refused_an_error() -> None:
    with (
        answering(refuses(404, 40401), refuses(404, 40403), refuses(404, 40402)) as server,
        client(server.url) as registry,
    ):
        assert registry.latest("s") is None
        assert registry.lookup("s", INT) is None
        with pytest.raises(RegistryRefused) as refused:
            registry.versions("s")
        assert (refused.value.status, refused.value.code) == (404, 40402)


def test_an_id_is_asked_for_once() -> None:
    with answering(says({"id": 7})) as server, client(server.url) as registry:
        assert [registry.register("s", INT) for _ in range(3)] == [7, 7, 7]
        assert len(server.asked) == 1
        registry.register("s", INT, [Reference("a", "a", 1)])
        registry.register("t", INT)
        assert len(server.asked) == 3


def test_all_schemas_are_fetched_in_pages() -> None:
    def page(start: int, count: int) -> Answer:
        each = {"version": 1, "schema": INT}
        return says([each | {"subject": f"s{i}", "id": i} for i in range(start, start + count)])

    with answering(page(0, 16), page(16, 3)) as server, client(server.url) as registry:
        found = registry.all_schemas(latest_only=True)
        assert [each.id for each in found] == list(range(19))
        assert server.paths == [
            "/schemas?latestOnly=true&offset=0&limit=16",
            "/schemas?latestOnly=true&offset=16&limit=16",
        ]


def test_a_schema_comes_with_all_that_it_refers_to_each_once() -> None:
    def schema(text: str, *references: tuple[str, int]) -> Answer:
        refers = [{"name": name, "subject": name, "version": at} for name, at in references]
        return says({"subject": "-", "version": 1, "id": 1, "schema": text, "references": refers})

    answers = (schema("b", ("d", 1)), schema("d"), schema("c", ("d", 1), ("b", 2)))
    with answering(*answers) as server, client(server.url) as registry:
        texts = registry.texts_of([Reference("b", "b", 2), Reference("c", "c", 1)])
        assert texts == ["d", "b", "c"]
        assert [path.partition("?")[0] for path in server.paths] == [
            f"/subjects/{each}" for each in ("b/versions/2", "d/versions/1", "c/versions/1")
        ]


def test_references_without_end_are_not_fetched_to_their_end() -> None:
    """A registry may be anybody's: each answer here is allowed, and refers to the next one."""
    many = says(
        {
            "subject": "-",
            "version": 1,
            "id": 1,
            "schema": " " * (MAX_STORED_LENGTH // 4),
            "references": [{"name": "a", "subject": f"s{at}", "version": 1} for at in range(100)],
        }
    )
    with answering(many) as server, client(server.url) as registry:
        with pytest.raises(InvalidSchema, match="references"):
            registry.texts_of([Reference("a", "a", 1)])
        assert len(server.paths) == 5


# Other instances, other attempts


def test_threads_share_it() -> None:
    with answering(says(["a"])) as server, client(server.url) as registry:
        found: list[str] = []

        def ask() -> None:
            for _ in range(20):
                found.extend(registry.subjects())

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == ["a"] * 160
        assert len({each.connection for each in server.asked}) <= 8


def test_another_instance_is_asked_and_stayed_with() -> None:
    with (
        answering(refuses(500, 50003)) as failing,
        answering(says(["a"])) as server,
        client(f"{nobody()},{failing.url},{server.url}") as registry,
    ):
        assert [registry.subjects() for _ in range(3)] == [["a"]] * 3
        assert len(failing.asked) == 1
        assert len({each.connection for each in server.asked}) == 1


@pytest.mark.parametrize("passing", [refuses(500, 50004), refuses(503, 503), hangs_up])
def test_a_passing_failure_is_waited_out(passing: Answer) -> None:
    with answering(passing, passing, says(["a"])) as server:
        with client(server.url, patience=20) as registry:
            assert registry.subjects() == ["a"]
        assert len(server.asked) == 3


def test_patience_ends() -> None:
    start = time.monotonic()
    with answering(refuses(500, 50002, "no disk")) as server:
        with client(server.url, patience=0.5) as registry, pytest.raises(RegistryRefused) as error:
            registry.subjects()
        assert (error.value.status, error.value.code) == (500, 50002)
        assert "no disk" in str(error.value)
        assert 3 <= len(server.asked) <= 20
    assert 0.5 <= time.monotonic() - start < 60


def test_whoever_typed_a_wrong_address_is_told_at_once() -> None:
    url = nobody()
    start = time.monotonic()
    with (
        RegistryClient(url, patience_seconds=60, first_contact_seconds=0) as registry,
        pytest.raises(RegistryNotReachable, match=f"no registry at {url}: connection refused"),
    ):
        registry.subjects()
    assert time.monotonic() - start < 40


def test_a_deletion_whose_answer_is_lost_is_not_asked_for_again() -> None:
    with answering(hangs_up) as server, answering(says([1])) as other:
        registry = client(f"{server.url},{other.url}", patience=10)
        with (
            registry,
            pytest.raises(RegistryNotReachable, match="the request may have been executed"),
        ):
            registry.delete_subject("s")
        assert (len(server.asked), other.asked) == (1, [])


def test_a_deletion_that_was_never_sent_goes_to_another_instance() -> None:
    with answering(says([1])) as server, client(f"{nobody()},{server.url}") as registry:
        assert registry.delete_subject("s") == [1]


# Answers that no registry gives


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (says({"subjects": []}), "does not answer as a schema registry"),
        (sends(OK + b"Content-Length: 4\r\n\r\n<ht>"), "does not answer as a schema registry"),
        (sends(OK + b"\r\n" + b"[" * 1_000_000), "does not answer as a schema registry"),
        (sends(OK + b'Content-Length: 4\r\n\r\n["\xff"'), "does not answer as a schema registry"),
        (sends(OK + b"Content-Length: 9\r\n\r\n[]"), "the response was cut off"),
        (sends(b"\x00\x00\x00\x10kafka says no"), "does not speak HTTP"),
        (sends(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n"), "HTTP 302 Found"),
        (sends(b"HTTP/1.1 404 Not Found\r\n\r\n<html>"), "HTTP 404 Not Found"),
        (sends(OK + b"\r\n", *[b" " * 1_000_000] * 40), "has more than 33,554,432 bytes"),
        (hangs_up, "remote end closed connection without response"),
    ],
)
def test_nonsense_is_one_error(answer: Answer, said: str) -> None:
    with (
        answering(answer) as server,
        client(server.url) as registry,
        pytest.raises(RegistryError, match=said) as error,
    ):
        registry.subjects()
    assert len(str(error.value)) < 300


def test_an_answer_that_takes_too_long_is_given_up() -> None:
    start = time.monotonic()
    with (
        answering(sends(OK + b"\r\n", *[b" "] * 99, every=0.2)) as server,
        client(server.url, attempt=0.3) as registry,
        pytest.raises(RegistryNotReachable, match=r"no answer within 0\.3 s"),
    ):
        registry.subjects()
    assert time.monotonic() - start < 15


def test_text_that_is_none_is_refused_before_it_is_sent() -> None:
    with client(nobody()) as registry, pytest.raises(RegistryError, match="not valid text"):
        registry.check("s", "\ud800")


def test_why_not_is_told_in_the_registrys_words() -> None:
    answer = {"is_compatible": False, "messages": ["a", "b"], "more": 1}
    with answering(says(answer)) as server, client(server.url) as registry:
        assert registry.check("s", INT) == CompatibilityVerdict(
            is_compatible=False, messages=("a", "b")
        )
        assert server.paths == ["/compatibility/subjects/s/versions?verbose=true"]


# URLs


def test_urls() -> None:
    assert parse_urls("http://a:8081, https://b ,HTTP://[::1]:1/x/") == (
        HttpUrl("http", "a", 8081),
        HttpUrl("https", "b", 443),
        HttpUrl("http", "::1", 1, "/x"),
    )
    shown = [str(each) for each in parse_urls("http://a:8081,https://b,http://[::1]:1/x/")]
    assert shown == ["http://a:8081", "https://b", "http://[::1]:1/x"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must begin with http"),
        ("http://a,", "must begin with http"),
        ("http://a,http://b:99999", "not a URL"),
        ("http://a/?b", "must end after the path"),
        ("http://me:secret@a", "a user and password in the URL are not supported"),
    ],
)
def test_wrong_urls(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as error:
        parse_urls(text)
    assert "secret" not in str(error.value)


# Behind TLS

# Of no use elsewhere: everyone has its key.
CERTIFICATE = Path(__file__).parent / "localhost.pem"


@pytest.fixture
def encrypted() -> Iterator[Answering]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    with answering(says(["a"])) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        yield server


def test_any_other_is_refused_at_once(encrypted: Answering) -> None:
    start = time.monotonic()
    with (
        RegistryClient(encrypted.url.replace("http:", "https:"), patience_seconds=60) as registry,
        pytest.raises(RegistryNotReachable, match="its certificate: self-signed certificate"),
    ):
        registry.subjects()
    assert time.monotonic() - start < 40
    assert encrypted.asked == []


# A running one


@pytest.fixture
def registry(running_registry: RegistryProcess) -> Iterator[RegistryClient]:
    with RegistryClient(running_registry.url) as client:
        yield client


@pytest.fixture
def space() -> str:
    """A namespace that no other test uses."""
    return f"n{uuid.uuid4().hex[:12]}"


def numbered(name: str, *types: str) -> str:
    return json.dumps(record(*(field(f"f{at}", each) for at, each in enumerate(types)), name=name))


def test_an_id_is_a_schema_with_all_it_needs(registry: RegistryClient, space: str) -> None:
    """C needs B and A, B needs A."""
    needs = {"A": [], "B": ["A"], "C": ["B", "A"]}
    ids = {}
    for name, others in needs.items():
        full = f"{space}.{name}"
        references = [Reference(f"{space}.{each}", f"{space}.{each}", 1) for each in others]
        ids[name] = registry.register(full, numbered(full, *(others or ["int"])), references)
    schema = registry.schema(ids["C"])
    assert schema.full_name == f"{space}.C"
    resolved = json.loads(schema.resolved_text)
    assert resolved["fields"][0]["type"]["fields"][0]["type"]["fields"][0]["type"] == "int"
    assert registry.schema(ids["C"]) is schema
    assert registry.places_of(ids["C"]) == [SubjectVersion(f"{space}.C", 1)]
    assert sorted(registry.referenced_by(f"{space}.A", 1)) == [ids["B"], ids["C"]]


def test_what_is_registered_is_found(registry: RegistryClient, space: str) -> None:
    subject = f"{space} ü/%2F:?#"
    with pytest.raises(RegistryRefused) as refused:
        registry.register(subject, '"in')
    assert (refused.value.status, refused.value.code) == (422, 42201)
    identity = registry.register(subject, '"int"')
    assert subject in registry.subjects()
    assert registry.versions(subject) == [1]
    found = registry.latest(subject)
    assert found is not None
    assert (found.id, found.text, registry.text_of(identity).text) == (identity, '"int"', '"int"')
    assert registry.lookup(subject, ' "int" ') == found
    assert registry.lookup(subject, '"long"') is None
    assert registry.check(subject, '"long"').is_compatible
    verdict = registry.check(subject, '"string"')
    assert not verdict.is_compatible
    assert any("TYPE_MISMATCH" in each for each in verdict.messages)
    with pytest.raises(RegistryRefused) as refused:
        registry.register(subject, '"string"')
    assert (refused.value.status, refused.value.code) == (409, 40901)


def test_what_is_not_avro_is_said_to_be_none() -> None:
    """As Confluent's registry may hold it."""
    answer = {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3";'}
    with answering(says(answer)) as server, RegistryClient(server.url) as registry:
        assert registry.text_of(5).type == "PROTOBUF"
        with pytest.raises(InvalidSchema, match="of type PROTOBUF, not AVRO"):
            registry.schema(5)
