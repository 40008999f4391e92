"""`penstock status`: what it prints, and its exit codes."""

import json
import os
import re
import signal
from pathlib import Path

import msgspec
import pytest

from audit.api.answers import AlteredTotal
from audit.reconciling.findings import KindCount, State
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from penstock.directory.places import MirrorPorts, Places, Ports
from penstock.directory.saved_start import SavedStart, save_start
from penstock.status.command import show_status
from penstock.status.values import (
    AgentStatus,
    AlertStatus,
    BrokerStatus,
    FailingLoadStatus,
    LoadStatus,
    PipelineStatus,
    TopicStatus,
)
from tests.penstock.answering_audit import answering
from tests.penstock.running import FORKS, REPOSITORY, Ended, penstock, running
from tests.penstock.status.made_up import (
    CALM,
    LOAD,
    NOW,
    agent_status,
    answers_of,
    audit_part,
    status_of,
    topic,
    topic_row,
)
from tests.penstock.terminals import opened, read_until

NOBODY = "http://127.0.0.1:1"
WITHIN = 60.0


def heard(
    broker: BrokerProcess, registry: RegistryProcess, *, state: State, more: tuple[str, ...] = ()
) -> Ended:
    """With an agent and an audit that are made up. Asked until all have answered: on a busy machine
    five seconds can be too short for one."""
    bodies = answers_of(audit_part([topic_row("t", state)]))
    bodies |= {"/status": msgspec.json.encode(agent_status())}
    ended = Ended([], 0)

    def all_answer() -> bool:
        nonlocal ended
        ended = penstock("status", *servers, "--audit", at.url, "--agent", at.url, *more)
        return "no answer within" not in ended.stdout

    with answering(lambda path, _query: (200, bodies[path])) as at:
        servers = ("--bootstrap", broker.bootstrap, "--registry", registry.url)
        wait_until(all_answer, within=WITHIN, what="all answer")
    return ended


def test_all_is_well(running_broker: BrokerProcess, running_registry: RegistryProcess) -> None:
    made = penstock("topics", "create", "t", "-b", running_broker.bootstrap)
    assert made.returncode == 0 or "exists" in made.stderr
    ended = heard(running_broker, running_registry, state=State.COMPLETE)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("✓ complete: every line is accounted for\n")
    assert running_broker.bootstrap in ended.stdout


def test_something_is_missing(
    running_broker: BrokerProcess, running_registry: RegistryProcess
) -> None:
    ended = heard(running_broker, running_registry, state=State.MISSING, more=("--json",))
    assert (ended.returncode, ended.stderr) == (1, "")
    status = msgspec.json.decode(ended.stdout, type=PipelineStatus)
    assert (status.verdict, status.problems) == ("missing", ())
    away = heard(running_broker, running_registry, state=State.MISSING, more=("--audit", NOBODY))
    assert (
        away.stdout.splitlines()[1]
        == "  what to do: systemctl restart penstock-audit  # on its host"
    )


def test_what_an_up_runs_is_found_by_its_directory(tmp_path: Path) -> None:
    """Of one with two clusters that one is asked where lines end."""
    ports = Ports(broker=2, registry=3, audit=4, agent_http=5, broker_http=6)
    mirror = MirrorPorts(offline_broker=7, offline_broker_http=8, offline_registry=9)
    for start, http, broker, registry in (
        (SavedStart(ports), "http", 2, 3),
        (SavedStart(ports, secure=True), "https", 2, 3),
        (SavedStart(ports, mirror=mirror), "http", 7, 9),
    ):
        save_start(Places(tmp_path), start)
        ended = penstock("status", "--dir", str(tmp_path), "--json")
        said = json.loads(ended.stdout)
        assert start.secure or all(
            each.endswith(": connection refused") for each in said["problems"]
        )
        assert [each.split(": ")[0] for each in said["problems"]] == [
            f"no broker at 127.0.0.1:{broker}",
            f"no registry at {http}://127.0.0.1:{registry}",
            "no agent at http://127.0.0.1:5",
            f"no audit at {http}://127.0.0.1:4",
        ]


def test_what_the_loader_of_an_up_cannot_load_is_said_without_an_audit(tmp_path: Path) -> None:
    places = Places(tmp_path)
    save_start(places, SavedStart(Ports(broker=2, registry=3, audit=4, agent_http=5)))
    places.log("loader").parent.mkdir()
    said = "2026-11-20T07:00:00.100Z ERROR penstock.load table failed table=t reason=all is dead\n"
    places.log("loader").write_text(said)
    ended = penstock("status", "--dir", str(tmp_path))
    assert ended.returncode == 1
    assert re.search("^! t is not loaded, for .*: all is dead$", ended.stdout, re.MULTILINE)


SERVERS = (f"--{name}={NOBODY}" for name in ("agent", "audit", "registry"))
WATCH = ["status", "--watch", "0.2", "--bootstrap", "127.0.0.1:1", *SERVERS]


def test_watching_repeats_until_ctrl_c() -> None:
    """In a pipe with a blank line behind each output, on a terminal in place."""
    with running(*WATCH) as process:
        once = [process.stdout.readline() for _ in range(8)]
        assert once[-1] == b"\n"
        assert [process.stdout.readline() for _ in range(8)] == once
        assert process.end(signal.SIGINT) == 130
        assert process.stderr.read() == b""
    with opened() as (main, terminal), open(os.devnull) as nothing:  # noqa: PTH123
        streams = (nothing.fileno(), terminal, terminal)
        call = FORKS.call(WATCH, streams, TERM="xterm")
        os.close(terminal)
        first = read_until(main, b"\x1b[?1049h", b"no audit answers", b"\x1b[J\x1b[H", b"\x1b[J")
        assert b"\x1b[2J" not in first
        call.send_signal(signal.SIGTERM)
        assert b"no audit answers" in read_until(main, b"\x1b[?1049l", b"No server answers: ")
        assert call.wait(WITHIN) == 128 + signal.SIGTERM


def test_every_field_is_documented() -> None:
    page = (REPOSITORY / "docs" / "status.md").read_text().partition("## `--json`")[2]
    kinds = (
        *(PipelineStatus, BrokerStatus, TopicStatus, AgentStatus, AlertStatus),
        *(LoadStatus, FailingLoadStatus, KindCount, AlteredTotal),
    )
    fields = {field for kind in kinds for field in kind.__struct_fields__}
    documented = set(re.findall(r"`(\w+)(?:\[\])?`", page))
    assert fields - documented == set()
    assert documented - fields == set()


AGENT = AgentStatus(
    agent="a1", host="web-1", state="ok", version="0.1.0", files=2, lag_bytes=700, heard=NOW - 3_000
)


def printed(said: PipelineStatus, capsys: pytest.CaptureFixture[str]) -> list[str]:
    show_status(said)
    return capsys.readouterr().out.splitlines()


def test_everything_in_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    shop = msgspec.structs.replace(topic("shop", 70), dead=3)
    said = status_of([topic("logs", 12_345), shop], load=LOAD)
    said = msgspec.structs.replace(said, agents=(AGENT,))
    assert printed(said, capsys) == [
        f"✓ {CALM}",
        "  last load 12 s ago: 4,000 rows of 2 topics, 50 not landed yet",
        "",
        "broker  address    leads  partitions  remark",
        "     1  here:9092      -           -  controller",
        "",
        "topic  partitions  stored  events  per second  landed  not read  dead  verdict",
        "logs            1  12,345  12,345         4.5   6,172  2.0 KiB      0  … pending",
        "shop            1      70      70         4.5      35  2.0 KiB      3  … pending",
        "",
        "agent  host   state  files  not read  heard    version",
        "a1     web-1  ok         2  700 B     3 s ago  0.1.0",
    ]


def test_nothing_runs(capsys: pytest.CaptureFixture[str]) -> None:
    away = PipelineStatus(now=NOW, problems=("no broker: connection refused",))
    first, problem, empty, advice = printed(away, capsys)
    assert (first, problem[:11], empty) == ("? unknown: no audit answers", "! no broker", "")
    assert "penstock up" in advice
    show_status(away, at_usual_addresses=True)
    assert capsys.readouterr().out.startswith("No pipeline runs here: `penstock up` starts a")


def test_somebody_is_away(capsys: pytest.CaptureFixture[str]) -> None:
    late = AlertStatus(kind="late", words="t waits", raised=NOW, command="penstock report t")
    said = status_of([topic("t")], problems=["no agent"], alerts=2)
    lines = printed(msgspec.structs.replace(said, raised=(late,)), capsys)
    assert lines[2:6] == [
        "! 2 alerts are raised",
        "! late, raised 2027-01-15T08:30:00Z: t waits",
        "  what to do: penstock report t",
        "! no agent",
    ]
    assert lines[-1].startswith("docs/status.md ")


def test_what_came_from_outside_commands_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    bad = "\x1b[2J\nx"
    said = msgspec.structs.replace(
        status_of([topic(bad, waits=bad, until=0)], problems=[bad]),
        agents=(msgspec.structs.replace(AGENT, agent=bad, host=bad, version=bad, state=bad),),
    )
    lines = printed(said, capsys)
    assert all(line.isprintable() for line in lines)
    assert sum("\\x1b[2J\\nx" in line for line in lines) == 4


def test_of_many_agents_the_first_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    agents = (msgspec.structs.replace(AGENT, files=-1),) * 25  # the audit does not count files
    said = msgspec.structs.replace(status_of(), agents=agents, expected_hosts=26)
    lines = printed(said, capsys)
    assert "  the audit's inventory names 26 hosts" in lines
    assert "agent  host   state  not read  heard    version" in lines
    assert lines[-1] == "and 5 more agents"
    assert sum(line.startswith("a1 ") for line in lines) == 20
