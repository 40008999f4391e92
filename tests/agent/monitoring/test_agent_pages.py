"""An agent's pages over real sockets; how the server treats clients is in tests/broker."""

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from agent.monitoring.pages import agent_pages
from agent.monitoring.status import AgentPhase, FileStatus, InputStatus, Status
from ground.http.page_server import PageServer


@dataclass
class Agent:
    """What the pages ask: settable."""

    status: Status = field(default_factory=lambda: Status(phase=AgentPhase.RUNNING, version="1"))
    stuck: str = ""
    asked: int = 0

    def now(self) -> Status:
        self.asked += 1
        return self.status


@pytest.fixture
def agent() -> Agent:
    return Agent()


@pytest.fixture
def port(agent: Agent) -> Iterator[int]:
    server = PageServer("127.0.0.1", 0, agent_pages(agent.now, lambda: agent.stuck))
    server.start()
    yield server.port
    server.stop()


def get(port: int, path: str) -> tuple[int, str, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read()
    finally:
        connection.close()


def test_health_is_that_it_moves(port: int, agent: Agent) -> None:
    assert get(port, "/healthz")[::2] == (200, b"alive\n")
    agent.stuck = "nothing was read for 40 s"
    assert get(port, "/healthz")[::2] == (503, b"nothing was read for 40 s\n")


def test_readiness_is_that_all_goes_its_way(port: int, agent: Agent) -> None:
    assert get(port, "/readyz")[::2] == (200, b"ready\n")
    stopped = InputStatus(name="i", topic="t", stopped="topic t has no schema")
    agent.status = Status(phase=AgentPhase.RUNNING, version="1", inputs=(stopped,))
    body = b"not ready: input i: topic t has no schema\n"
    assert get(port, "/readyz")[::2] == (503, body)


def test_metrics_are_prometheuss(port: int) -> None:
    status, content_type, body = get(port, "/metrics")
    assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert b"\npenstock_agent_ready 1.0\n" in body


def test_status_is_json_with_every_file(port: int, agent: Agent) -> None:
    files = tuple(
        FileStatus(
            path=f"/var/log/{number}",
            source=f"s{number}",
            input="i",
            topic="t",
            size=10,
            position=5,
            acknowledged=3,
            lag_bytes=7,
        )
        for number in range(3_000)
    )
    agent.status = Status(phase=AgentPhase.RUNNING, version="1", files=files)
    status, content_type, body = get(port, "/status")
    assert (status, content_type) == (200, "application/json")
    document = json.loads(body)
    assert len(document["files"]) == 3_000
    assert document["files"][7]["lag_bytes"] == 7
    assert document["phase"] == "running"


def test_a_large_status_is_made_once_for_many_who_ask(port: int, agent: Agent) -> None:
    for _ in range(10):
        assert get(port, "/status")[0] == 200
    assert agent.asked <= 2


def test_what_there_is(port: int) -> None:
    assert get(port, "/")[::2] == (404, b"not found; pages: /metrics, /healthz, /readyz, /status\n")
