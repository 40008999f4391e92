"""What `penstock status` prints."""

import msgspec
import pytest

from penstock.status.command import show_standing
from penstock.status.values import AgentStanding, PipelineStatus
from tests.penstock.status.made_up import LOAD, NOW, standing, topic

AGENT = AgentStanding(
    agent="a1", host="web-1", state="ok", version="0.1.0", files=2, lag_bytes=700, heard=NOW - 3_000
)


def printed(said: PipelineStatus, capsys: pytest.CaptureFixture[str]) -> list[str]:
    show_standing(said)
    return capsys.readouterr().out.splitlines()


def test_everything_in_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    said = standing([topic("logs", 12_345), topic("shop", 70)], load=LOAD)
    said = msgspec.structs.replace(said, agents=(AGENT,))
    assert printed(said, capsys) == [
        "… pending: every line up to 40 s ago is accounted for",
        "  last load 12 s ago: 4,000 rows of 2 topics, 50 not landed yet",
        "",
        "broker  address    leads  partitions  remark",
        "     1  here:9092      -           -  controller",
        "",
        "topic  partitions  stored  events  landed  not read  verdict",
        "logs            1  12,345  12,345   6,172  2.0 KiB   … pending",
        "shop            1      70      70      35  2.0 KiB   … pending",
        "",
        "agent  host   state  files  not read  heard    version",
        "a1     web-1  ok         2  700 B     3 s ago  0.1.0",
    ]


def test_nothing_runs(capsys: pytest.CaptureFixture[str]) -> None:
    first, problem, empty, advice = printed(
        PipelineStatus(now=NOW, problems=("no broker",)), capsys
    )
    assert (first, problem, empty) == ("? unknown: no audit answers", "! no broker", "")
    assert "penstock up" in advice


def test_somebody_is_away(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(standing([topic("t")], problems=["no agent"], alerts=2), capsys)
    assert lines[2:4] == ["! 2 alerts are raised", "! no agent"]
    assert lines[-1].startswith("docs/status.md ")


def test_what_came_from_outside_commands_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    bad = "\x1b[2J\nx"
    said = msgspec.structs.replace(
        standing([topic(bad, waits=bad, until=0)], problems=[bad]),
        agents=(msgspec.structs.replace(AGENT, agent=bad, host=bad, version=bad, state=bad),),
    )
    lines = printed(said, capsys)
    assert all(line.isprintable() for line in lines)
    assert sum("\\x1b[2J\\nx" in line for line in lines) == 4


def test_of_many_agents_the_first_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    said = msgspec.structs.replace(standing(), agents=(AGENT,) * 25)
    lines = printed(said, capsys)
    assert lines[-1] == "and 5 more agents"
    assert sum(line.startswith("a1 ") for line in lines) == 20
