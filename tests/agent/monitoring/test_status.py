"""How an agent stands: what makes it not ready, and what other releases read."""

import msgspec

from agent.configuration.refusals import Refusal
from agent.monitoring.status import (
    AgentPhase,
    InputStatus,
    JournalStatus,
    Status,
    TopicStatus,
    why_not_ready,
)


def running(**more: object) -> Status:
    return msgspec.structs.replace(Status(phase=AgentPhase.RUNNING, version="1"), **more)


def test_an_agent_whose_inputs_go_their_way_is_ready() -> None:
    lagging = InputStatus(name="a", topic="a", lag_bytes=10**9, warning="version 3 does not fit")
    stalled_ledger = TopicStatus(name="_audit", stalled="not authorised")
    status = running(inputs=(lagging,), topics=(stalled_ledger,), registry="away")
    assert why_not_ready(status) == ""


def test_why_it_is_not() -> None:
    assert why_not_ready(running(phase=AgentPhase.STARTING)) == "starting"
    assert why_not_ready(running(phase=AgentPhase.FAILED, failure="the journal")) == "the journal"
    status = running(
        inputs=(InputStatus(name="a", topic="t", stopped="topic t has no schema"),),
        refusals=(Refusal(path="/etc/b.yaml", why="unknown key"),),
        journal=JournalStatus(full="no space left on device"),
    )
    assert why_not_ready(status) == (
        "no space left on device; input a: topic t has no schema; /etc/b.yaml: unknown key"
    )


def test_another_releases_status_can_be_read() -> None:
    older = b'{"phase":"running","version":"0.0.1","inputs":[{"name":"a","topic":"t"}]}'
    newer = older[:-1] + b',"tls":true}'
    assert msgspec.json.decode(newer, type=Status) == msgspec.json.decode(older, type=Status)
