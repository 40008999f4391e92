"""The audit asked over real sockets, answering as it should, and in every other way."""

from collections.abc import Iterator

import pytest

from harness.processes.server_process import free_ports
from loader.hours.audit import Audit
from loader.hours.completeness import MOST_NAMES, Complete, Waiting
from tests.loader.answering_audit import Answering, answering_audit, document
from tests.loader.hours.manifests import hour

ONE = ("a.b", hour(0))


@pytest.fixture
def audit() -> Iterator[Answering]:
    with answering_audit() as answering:
        yield answering


def test_hours_of_topics(audit: Answering) -> None:
    audit.said.body = document(complete=True, by="7 agents and the brokers")
    asked = [("a.b", hour(0)), ("a.b", hour(1)), ("c&d", hour(0))]
    answers = Audit(audit.url, "dc1").ask(asked)
    assert answers == dict.fromkeys(asked, Complete("audit: 7 agents and the brokers"))
    assert audit.said.paths == {"/behind/api/v1/hour"}
    assert audit.said.asked == [
        {"cluster": ["dc1"], "topic": [topic], "hour": [str(at)]} for topic, at in asked
    ]
    assert audit.said.connections == 1
    Audit(audit.url, "dc1").ask(asked, destination="file:///w", rebuilt={hour(1): 7})
    of_files = [each for each in audit.said.asked[3:] if "destination" in each]
    assert [(each["hour"], each["destination"], each["rebuilt"]) for each in of_files] == [
        ([str(hour(1))], ["file:///w"], ["7"])
    ]


def test_what_is_waited_for_is_cut_to_what_a_marker_may_hold(audit: Answering) -> None:
    audit.said.body = document(missing="agents on web-1\n\u202eweb-2", names=["web-1", "web-2"])
    assert Audit(audit.url, "dc1").ask([ONE])[ONE] == Waiting(
        "agents on web-1 web-2", ("web-1", "web-2")
    )
    audit.said.body = document(missing="x" * 10_000, names=["n" * 500] * 1_500)
    waiting = Audit(audit.url, "dc1").ask([ONE])[ONE]
    assert isinstance(waiting, Waiting)
    assert (len(waiting.missing), len(waiting.names), len(waiting.names[0])) == (
        *(1_000, MOST_NAMES),
        255,
    )
    audit.said.body = document()
    waiting = Audit(audit.url, "dc1").ask([ONE])[ONE]
    assert isinstance(waiting, Waiting)
    assert waiting.missing.endswith("which gave no reason")


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (200, b"", "did not answer like an audit service"),
        (200, b"[]", "did not answer like an audit service"),
        (200, b'{"complete": "yes"}', "did not answer like an audit service"),
        (200, b"[" * 100_000, "did not answer like an audit service"),
        (200, b"\xff", "did not answer like an audit service"),
        (
            200,
            b" " * (1 << 20) + b"{}",
            "could not be asked (its response has more than 1,048,576 bytes)",
        ),
        (400, b'{"error": "no such\\ntopic"}', "answered HTTP 400: no such topic"),
        (503, b"<html>", "answered HTTP 503"),
        (302, b"", "answered HTTP 302"),
    ],
)
def test_odd_answers_make_hours_wait(
    audit: Answering, status: int, body: bytes, words: str
) -> None:
    audit.said.status, audit.said.body = status, body
    asking = Audit(audit.url, "dc1")
    assert asking.ask([ONE])[ONE] == Waiting(f"the audit at {audit.url}, which {words}")
    # It is not asked again, unless it was the question that it did not like.
    assert asking.ask([ONE])[ONE] == Waiting(f"the audit at {audit.url}, which {words}")
    assert len(audit.said.asked) == (2 if status == 400 else 1)
    assert (asking.away is None) == (status == 400)


def test_an_audit_that_takes_too_long(audit: Answering) -> None:
    audit.said.pause = 0.3
    waiting = Audit(audit.url, "dc1", seconds=0.05).ask([ONE])[ONE]
    assert waiting == Waiting(
        f"the audit at {audit.url}, which could not be asked (no answer within 0.05 s)"
    )


def test_nobody_is_there() -> None:
    url = f"http://127.0.0.1:{free_ports(1)[0]}"
    (waiting,) = set(Audit(url, "dc1").ask([ONE, ("c", hour(1))]).values())
    assert waiting == Waiting(f"the audit at {url}, which could not be asked (connection refused)")
