"""What an audit answers over HTTP, to those who ask as they should and to those who do not."""

import json
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.api.answers import Problem, ReportAnswer
from audit.api.queries import Query
from audit.http.page_files import page_files
from audit.http.resources import MESSAGES, RESOURCES, Resource
from audit.http.statements import PATHS
from audit.reconciling.findings import State
from harness.penstock.audit import AuditProcess
from ledger.certificate_requests import PATH as CERTIFICATES

OTHERS = ("/", "/api/openapi.json", "/healthz", "/readyz", "/metrics")


def name(resource: Resource) -> str:
    return resource.path


def needed(query: type[Query]) -> str:
    """What has to be asked for."""
    names = [each.encode_name for each in msgspec.structs.fields(query) if each.required]
    return "&".join(f"{each}={0 if each == 'hour' else 'nothing'}" for each in names)


@pytest.mark.parametrize("resource", RESOURCES, ids=name)
def test_answers_have_the_shapes_they_are_described_with(
    audit: AuditProcess, resource: Resource
) -> None:
    answer = audit.ask(f"{resource.path}?{needed(resource.query)}")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    if answer.status == 503:  # nobody knows of topics while nothing was read
        msgspec.json.decode(answer.body, type=Problem)
    else:
        assert answer.status == 200
        msgspec.json.decode(answer.body, type=resource.answer_type, strict=True)


def test_the_description_names_every_path_and_parameter(audit: AuditProcess) -> None:
    described = json.loads(audit.ask("/api/openapi.json").body)
    posted = PATHS | {CERTIFICATES}
    assert set(described["paths"]) == {each.path for each in (*RESOURCES, MESSAGES)} | posted
    assert all(list(described["paths"][each]) == ["post"] for each in posted)
    for resource in (*RESOURCES, MESSAGES):
        operation = described["paths"][resource.path]["get"]
        names = {each["name"] for each in operation["parameters"]}
        assert names == {each.encode_name for each in msgspec.structs.fields(resource.query)}
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        assert schema["$ref"].endswith(f"/{resource.answer_type.__name__}")


def test_the_description_refers_to_nothing_that_is_not_there(audit: AuditProcess) -> None:
    text = audit.ask("/api/openapi.json").body.decode()
    schemas = json.loads(text)["components"]["schemas"]
    referred = {part.partition('"')[0] for part in text.split('"#/components/schemas/')[1:]}
    assert referred <= set(schemas)
    assert "Problem" in referred


def test_nobody_can_change_anything(audit: AuditProcess) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert audit.ask("/api/v1/topics", method=method).status == 403  # who knows from where
        answer = audit.ask("/api/v1/topics", method=method, headers={"origin": audit.url})
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("path", [*OTHERS, "/api/v1/topics", "/static/nothing"])
def test_a_head_is_the_answer_without_its_body(audit: AuditProcess, path: str) -> None:
    whole, head = audit.ask(path), audit.ask(path, method="HEAD")
    assert (head.status, head.body) == (whole.status, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]


@pytest.mark.parametrize("path", OTHERS)
def test_a_browser_is_told_what_it_may_do(audit: AuditProcess, path: str) -> None:
    headers = audit.ask(path).headers
    assert headers["content-security-policy"].startswith("default-src 'none';")
    assert "strict-transport-security" not in headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers


def test_without_logins_there_is_nothing_to_log_in_to(audit: AuditProcess) -> None:
    assert audit.ask("/session").body == b'{"user":"","by":"","operator":false}'
    assert audit.ask("/login").status == 404
    answer = audit.ask("/logout", method="POST", headers={"origin": audit.url})
    assert answer.status == 404


def test_every_file_of_the_page_is_served(audit: AuditProcess) -> None:
    files = page_files()
    assert "index.html" in files
    for path, file in files.items():
        answer = audit.ask(f"/static/{quote(path)}")
        assert (answer.status, answer.body) == (200, file.body)
        assert answer.headers["content-type"] == file.content_type
    assert audit.ask("/").body == files["index.html"].body


def test_what_has_not_changed_is_not_sent_again(audit: AuditProcess) -> None:
    etag = audit.ask("/").headers["etag"]
    answer = audit.ask("/", headers={"if-none-match": f'"other", {etag}'})
    assert (answer.status, answer.body) == (304, b"")
    assert audit.ask("/", headers={"if-none-match": '"other"'}).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/api",
        "/api/v1/topics/",
        "/static/",
        "/static/../runbook.py",
        "/static/%2e%2e/runbook.py",
        "/static//etc/passwd",
        "/static/..%2f..%2f..%2fetc/passwd",
        "/static/index.html%00",
        "/static/index.html/",
        "//static/index.html",
        "/" + "x" * 5_000,
    ],
)
def test_nothing_else_is_there(audit: AuditProcess, path: str) -> None:
    answer = audit.ask(path)
    assert answer.status == 404
    assert len(msgspec.json.decode(answer.body, type=Problem).error) < 400


@pytest.mark.parametrize(
    ("path", "view"),
    [
        ("/findings", "./#/findings"),
        ("/findings/", "../#/findings"),
        ("/topic?cluster=a&topic=b%20c", "./#/topic?cluster=a&topic=b%20c"),
        ("/no/such/view", "../../#/no/such/view"),
        ("//elsewhere.example", "../#//elsewhere.example"),
        ("/a%0d%0aset-cookie:%20b", "./#/a%0D%0Aset-cookie%3A%20b"),
    ],
)
def test_a_browser_is_led_to_what_it_typed(audit: AuditProcess, path: str, view: str) -> None:
    answer = audit.ask(path, headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (answer.status, answer.headers["location"]) == (307, view)


def test_a_program_is_told_that_nothing_is_there(audit: AuditProcess) -> None:
    browser = {"accept": "text/html"}
    for path, headers in (("/findings", {}), ("/api/v1/nothing", {}), ("/api/v1/nothing", browser)):
        answer = audit.ask(path, headers=headers)
        assert answer.status == 404
        assert path in msgspec.json.decode(answer.body, type=Problem).error


def test_who_asks_whether_it_is_well_learns_how_old_all_is(audit: AuditProcess) -> None:
    assert audit.ask("/healthz").body.decode().splitlines() == [
        "healthy",
        "the ledger of test is being read",
    ]


@pytest.mark.parametrize(
    "target",
    [
        "/api/v1/topics?size=501",
        "/api/v1/topics?size=5&size=5",
        "/api/v1/topics?wrong=1",
        "/api/v1/topics?search=%ff",
        "/api/v1/topic",
        "/api/v1/topic?topic=x&from=120000&to=60000",
        "/api/v1/report?from=0&to=99999999999",
        "/api/v1/findings?kind=bad",
        "/api/v1/hour?topic=x&hour=17",
        "/api/v1/agents?state=fine",
    ],
)
def test_what_cannot_be_meant_is_said(audit: AuditProcess, target: str) -> None:
    answer = audit.ask(target)
    assert answer.status == 400
    assert msgspec.json.decode(answer.body, type=Problem).error


@settings(max_examples=60)
@given(st.text(max_size=60), st.sampled_from([each.path for each in RESOURCES]))
def test_no_query_is_a_bug(audit: AuditProcess, text: str, path: str) -> None:
    for query in (f"search={quote(text)}", f"topic={quote(text)}&hour=0", quote(text)):
        assert audit.ask(f"{path}?{query}").status in {200, 400, 404, 503}


def test_a_cluster_that_is_not_there_is_said(audit: AuditProcess) -> None:
    assert b"Cluster test cannot be read" in audit.ask("/readyz").body
    (notice,) = json.loads(audit.ask("/api/v1/topics").body)["notices"]
    assert "Cluster test cannot be read" in notice
    assert (
        'penstock_audit_cluster_reachable{cluster="test"} 0.0'
        in audit.ask("/metrics").body.decode()
    )


def test_nothing_is_complete_that_has_not_begun(audit: AuditProcess) -> None:
    year_9999 = 253_370_764_800_000
    report = audit.get("report", ReportAnswer, from_=year_9999, to=year_9999 + 60_000)
    assert report.state is State.PENDING
