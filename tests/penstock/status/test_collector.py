"""Everybody asked: a real broker and a real registry, an agent and an audit that are made up."""

import socket
from typing import Any

import msgspec
import pytest

from agent.monitoring.status import FileStatus
from audit.reconciling.findings import State
from client.errors import BadAddress
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from penstock.directory.pipeline_access import PipelineAccess
from penstock.directory.places import Addresses
from penstock.status.collector import LatestStatus, StatusCollector
from penstock.status.values import PipelineStatus
from tests.ground.peers import peer
from tests.penstock.answering_audit import Query, answering
from tests.penstock.running import At
from tests.penstock.status.made_up import agent_status, answers_of, audit_part, topic_row

NOBODY = "http://127.0.0.1:1"
AWAY = Addresses("127.0.0.1:1", NOBODY, NOBODY, NOBODY, "")
PATIENT = 30.0  # on a busy machine


def asked(addresses: Addresses) -> PipelineStatus:
    with StatusCollector(PipelineAccess(addresses), within=PATIENT) as collector:
        return collector.ask()


@pytest.mark.parametrize(
    "wrong",
    [
        Addresses(brokers="a:b"),
        Addresses(registry="nowhere"),
        Addresses(audit="ftp://a"),
        Addresses(agent="a"),
        Addresses(broker_http="http://a:1,b:2"),
    ],
)
def test_an_address_that_cannot_be_understood(wrong: Addresses) -> None:
    with pytest.raises((ValueError, BadAddress)):
        StatusCollector(PipelineAccess(wrong))


def test_everybody_answers(
    at: At, running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> None:
    at.output("topics", "create", new_topic, "--partitions", "3")
    at.output("produce", new_topic, stdin="one\ntwo\nthree\n")
    servers = (running_broker.bootstrap, running_registry.url)
    page = f"http://127.0.0.1:{running_broker.http_port}"
    bodies = answers_of(audit_part([topic_row(new_topic)]))
    agent_answer = msgspec.json.encode(agent_status())
    with (
        answering(lambda path, _: (200, bodies[path])) as audit,
        answering(lambda _path, _query: (200, agent_answer)) as agent,
        StatusCollector(
            PipelineAccess(Addresses(*servers, audit.url, agent.url, broker_http=page)),
            within=PATIENT,
        ) as collector,
    ):
        status = collector.ask()
        at.output("produce", new_topic, stdin="four\n")
        later = collector.ask()
    assert [each.address for each in status.brokers] == [running_broker.bootstrap]
    assert status.brokers[0].controller
    assert status.registry_subjects >= 0
    topics = {each.topic: each for each in status.topics}
    found = topics[new_topic]
    assert (found.partitions, found.stored, found.end, found.landed) == (3, 3, 3, 0)
    assert (found.state, found.unread_bytes) == ("complete", 0)
    assert not any(name.startswith("_") for name in topics)
    assert [each.agent for each in status.agents] == ["a1"]
    assert (status.cluster, status.verdict) == ("c", "complete")
    assert status.problems == later.problems
    assert [each.end for each in later.topics if each.topic == new_topic] == [4]


def test_what_a_broker_has_lost(running_broker: BrokerProcess) -> None:
    page = b"ready\nlost: t-0 has lost 5\ndamaged: t-1, messages 3 to 4\n"
    addresses = AWAY._replace(brokers=running_broker.bootstrap)
    asked_for = set()

    def answers(path: str, _query: Query) -> tuple[int, bytes]:
        asked_for.add(path)
        return 200, page

    with answering(answers) as pages:
        both = f"{pages.url}, http://127.0.0.1:{running_broker.http_port}"
        problems = asked(addresses._replace(broker_http=both)).problems
    assert asked_for == {"/readyz"}
    assert [each for each in problems if pages.url in each] == [
        f"broker at {pages.url}: lost: t-0 has lost 5",
        f"broker at {pages.url}: damaged: t-1, messages 3 to 4",
    ]


@pytest.mark.parametrize(
    ("status", "page", "why"),
    [
        (200, b"hello\n", "the server is not a broker of this release"),
        (200, b"", "the server is not a broker of this release"),
        (503, b"not ready: recovering logs\n", "HTTP status 503: not ready: recovering logs"),
    ],
)
def test_a_broker_whose_page_says_nothing_of_use(
    running_broker: BrokerProcess, status: int, page: bytes, why: str
) -> None:
    with answering(lambda _path, _query: (status, page)) as pages:
        addresses = AWAY._replace(brokers=running_broker.bootstrap, broker_http=pages.url)
        assert f"no broker's page at {pages.url}: {why}" in asked(addresses).problems


def test_who_hangs_is_not_waited_for_and_the_others_are_heard() -> None:
    """A broker that takes a connection and says nothing; an agent that is well."""

    def says_nothing(connection: socket.socket) -> None:
        while connection.recv(65_536):
            pass

    status = msgspec.json.encode(agent_status())
    hanging = socket.create_server(("127.0.0.1", 0))
    audit = f"http://127.0.0.1:{hanging.getsockname()[1]}"
    with (
        hanging,
        peer(says_nothing) as port,
        answering(lambda _path, _query: (200, status)) as agent,
        StatusCollector(
            PipelineAccess(
                AWAY._replace(brokers=f"127.0.0.1:{port}", agent=agent.url, audit=audit)
            ),
            within=0.2,
        ) as collector,
    ):
        wait_until(lambda: collector.ask().agents, what="the agent is heard")
        problems = collector.ask().problems
    assert f"no broker at 127.0.0.1:{port}: no answer within 0.2 s" in problems
    assert problems[-1] == f"no audit at {audit}: no answer within 0.2 s"


def test_where_it_is_is_said_once() -> None:
    def speaks_http(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with peer(speaks_http) as port:
        said = asked(AWAY._replace(brokers=f"127.0.0.1:{port}")).problems[0]
    assert said.startswith(f"no broker at 127.0.0.1:{port}: ")
    assert said.count(f":{port}") == 1  # which may be within a number that follows


@pytest.mark.parametrize(
    ("body", "times", "why"),
    [
        (b"not json", 1, "not an agent of this release"),
        (b'{"phase": "dancing", "version": ""}', 1, "not an agent of this release"),
        (b"[", 1_000_000, "not an agent of this release"),
        (b"x", 70 << 20, "has more than 67,108,864 bytes"),
    ],
)
def test_an_agent_that_answers_anything(body: bytes, times: int, why: str) -> None:
    with answering(lambda _path, _query: (200, body * times)) as agent:
        status = asked(AWAY._replace(agent=agent.url))
    assert any(each.startswith(f"no agent at {agent.url}") for each in status.problems)
    assert any(why in each for each in status.problems)
    assert all(len(each) <= 300 for each in status.problems)


def test_of_an_agent_with_many_files_all_is_taken() -> None:
    names: dict[str, Any] = {
        "path": "/var/log/" + "x" * 200,
        "source": "s",
        "input": "one",
        "topic": "t",
    }
    file = FileStatus(**names, size=1, position=1, acknowledged=1, lag_bytes=0)
    answer = msgspec.structs.replace(agent_status(), files=(file,) * 10_000)
    with answering(lambda _path, _query: (200, msgspec.json.encode(answer))) as agent:
        status = asked(AWAY._replace(agent=agent.url))
    assert [each.files for each in status.agents] == [3]


def test_the_latest_is_kept_and_follows() -> None:
    rows = [topic_row("t", State.COMPLETE)]

    def answers(path: str, _query: Query) -> tuple[int, bytes]:
        return 200, answers_of(audit_part(rows))[path]

    def says(verdict: str) -> bool:
        return following.latest is not None and following.latest.verdict == verdict

    with (
        answering(answers) as audit,
        LatestStatus(StatusCollector(PipelineAccess(AWAY._replace(audit=audit.url)))) as following,
    ):
        wait_until(lambda: says("complete"), what="asked")
        rows[:] = [topic_row("t", State.MISSING)]
        wait_until(lambda: says("missing"), what="asked again")
