"""The parts of Airflow's provider that need no Airflow: connections, verdicts, loads as processes.

tests/system/loader/test_airflow.py has the rest, in Airflow.
"""

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow_providers_penstock.address import BadConnection, address_of
from airflow_providers_penstock.hour_verdicts import (
    BadHour,
    HourQuestion,
    State,
    Verdict,
    gate_verdict,
    hour_of,
    report_verdict,
)
from airflow_providers_penstock.load_outcomes import (
    Outcome,
    failure_words,
    outcome_of,
    report_in,
    summary_of,
)
from airflow_providers_penstock.load_process import LoadProcess, load_command

from harness.processes.waiting import wait_until
from loader.config import LoaderConfig
from loader.errors import GapError, LoaderError
from loader.run.outcomes import WORST_FIRST, PartitionRange, TableOutcome
from loader.values.tables import Hour
from penstock.services.load.command import command
from penstock.services.load.summary import EndedLoad, document

HOUR = 1_795_158_000_000  # 2026-11-20, 07:00 UTC
CONFIG = LoaderConfig(root="hdfs://n:8020/logs", topics=("*",))
NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)


def connection(**fields: object) -> SimpleNamespace:
    known = {"host": None, "port": None, "schema": None, "login": None, "password": None}
    return SimpleNamespace(**known | {"extra_dejson": {}} | fields)


@pytest.mark.parametrize(
    ("fields", "url", "authorization"),
    [
        ({}, "http://127.0.0.1:8090", None),
        ({"host": "audit", "port": 80}, "http://audit:80", None),
        ({"host": "::1", "schema": "https"}, "https://[::1]:8090", None),
        ({"schema": "https", "password": "t"}, "https://127.0.0.1:8090", "Bearer t"),
        (
            {"password": "t", "extra_dejson": {"without_tls": True}},
            "http://127.0.0.1:8090",
            "Bearer t",
        ),
        (
            {"schema": "https", "login": "a", "password": "b"},
            "https://127.0.0.1:8090",
            "Basic YTpi",
        ),
    ],
)
def test_an_address(fields: dict[str, object], url: str, authorization: str | None) -> None:
    address = address_of(connection(**fields))
    assert (address.url, address.headers.get("Authorization")) == (url, authorization)
    assert authorization is None or authorization not in repr(address)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"host": "http://audit"}, "without http:// or path"),
        ({"host": "audit/x"}, "without http:// or path"),
        ({"schema": "ftp"}, "must be http or https"),
        ({"password": "t"}, "set the schema to https"),
        ({"password": "t\n", "schema": "https"}, "not a token"),
        ({"extra_dejson": {"ca": "/ca.pem"}}, "certificates are for schema https"),
        ({"extra_dejson": {"caa": ""}}, "unknown keys in the extra: caa"),
    ],
)
def test_a_connection_that_cannot_be_used(fields: dict[str, object], words: str) -> None:
    with pytest.raises(BadConnection, match=words):
        address_of(connection(**fields))


def test_certificates_that_cannot_be_read() -> None:
    extra = {"ca": "/nowhere/ca.pem"}
    address = address_of(connection(schema="https", extra_dejson=extra))
    with pytest.raises(BadConnection, match=r"the certificates in /nowhere/ca\.pem"):
        address.tls()


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-20 07:05:00+00:00",
        "2026-11-20T07:59:59.9Z",
        "2026-11-20T07",
        "2026-11-20T12:35+05:30",
        datetime(2026, 11, 20, 7, 1),
    ],
)
def test_the_hour_of_a_time(text: str | datetime) -> None:
    assert hour_of(text, NOW) == HOUR


@pytest.mark.parametrize("text", ["", "yesterday", "2026-11-20T10", "None"])
def test_a_time_without_an_hour_to_wait_for(text: str) -> None:
    with pytest.raises(BadHour):
        hour_of(text, NOW)


def body(**fields: object) -> bytes:
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    ("status", "answer", "state", "words"),
    [
        (200, body(complete=True, by="agents"), State.COMPLETE, "by agents"),
        (200, body(complete=False, missing="web\n1"), State.WAITING, "waits for web 1"),
        (200, body(complete=True, unknown="forgotten"), State.HOPELESS, "forgotten"),
        (200, body(complete="true"), State.WAITING, "gave no reason"),
        (200, b"<html>", State.HOPELESS, "did not answer like an audit"),
        (200, b"[]", State.HOPELESS, "did not answer like an audit"),
        (200, b"[" * 100_000, State.HOPELESS, "did not answer like an audit"),
        (302, b"", State.HOPELESS, "HTTP 302"),
        (400, body(error="give a cluster"), State.HOPELESS, "HTTP 400: give a cluster"),
        (401, body(error="x" * 9_999), State.HOPELESS, "look at the token"),
        (429, body(error="slower"), State.WAITING, "HTTP 429: slower"),
        (503, b"\xff", State.WAITING, "HTTP 503"),
    ],
)
def test_a_verdict_on_agents_and_brokers(
    status: int, answer: bytes, state: State, words: str
) -> None:
    verdict = gate_verdict(status, answer)
    assert (verdict.state, words in verdict.reason) == (state, True), verdict
    assert len(verdict.reason) < 1_100


def test_a_verdict_on_files() -> None:
    tiers = [{"tier": "hdfs", "destination": "hdfs://n/logs", "events": 7}]
    complete = report_verdict(200, body(state="complete", topics=[{"tiers": tiers}]))
    assert (complete.state, complete.tiers[0].events) == (State.COMPLETE, 7)
    assert "7 at hdfs" in complete.reason
    assert Verdict.from_dict(json.loads(json.dumps(complete.as_dict()))) == complete
    assert report_verdict(200, body(state="empty", topics=[{}])).state is State.COMPLETE
    lines = [{"words": f"line {number}"} for number in range(4)]
    faulty = report_verdict(200, body(state="missing", topics=[{"waits": lines, "findings": 7}]))
    words = "missing: line 0; line 1; line 2; and 1 more"
    assert (faulty.state, faulty.reason) == (State.WAITING, words)
    assert (
        report_verdict(200, body(state="pending", unread=[{"words": "no"}])).reason == "pending: no"
    )
    assert report_verdict(404, body(error="no topic")).state is State.HOPELESS


def test_what_is_asked() -> None:
    question = HourQuestion(topic="a&b", hour=HOUR, cluster="dc1")
    assert question.gate_query == {"cluster": "dc1", "topic": "a&b", "hour": str(HOUR)}
    assert question.report_query["to"] == str(HOUR + 3_600_000)
    assert question.words == "a&b 2026-11-20T07"


def test_every_exit_code_of_a_load_has_an_outcome() -> None:
    """As docs/loader-failures.md describes them: 4, 6 and 8 need a person."""
    codes = {0, 2, 3, 126, 127, -9, *WORST_FIRST}
    by_outcome = {
        outcome: {code for code in codes if outcome_of(code) is outcome} for outcome in Outcome
    }
    assert by_outcome == {
        Outcome.SUCCESS: {0},
        Outcome.NOTHING_TO_DO: {3},
        Outcome.FINAL_FAILURE: {2, 4, 6, 8, 126, 127},
        Outcome.FAILURE: {-9, 1, 5, 7, 130},
    }


def test_the_report_of_a_load() -> None:
    """Of the loader's own types: a renamed field is noticed here."""
    ranges = (PartitionRange("views", 0, 3, 10),)
    views = TableOutcome("views", run=7, ranges=ranges, rows=9, bytes=80, files=2, late=1, dead=2)
    views.complete = [Hour(HOUR)]
    gap = TableOutcome("clicks", error=GapError("events are\ngone"), cure="accept it")
    ended = EndedLoad((TableOutcome("idle"), views, gap), 3.5)
    report = report_in(json.dumps(document(ended, CONFIG)).encode())
    summary = summary_of(report)
    assert (summary["rows"], summary["tables_total"], summary["exit_code"]) == (9, 2, 4)
    assert summary["tables"]["views"].items() >= {"run": 7, "files": 2, "dead": 2}.items()
    assert summary["tables"]["views"]["complete"] == ["dt=2026-11-20/hour=07"]
    words = "the load ended with exit code 4: clicks: events are gone (what to do: accept it)"
    assert failure_words(4, report, "") == words
    assert failure_words(1, report_in(b"not JSON"), "last\x1b line").endswith(": last  line")
    away = EndedLoad((), 1.0, error=LoaderError("no broker"))
    report = report_in(json.dumps(document(away, CONFIG)).encode())
    words = "exit code 1: no broker (what to do: restore it)"
    assert failure_words(1, report, "  what to do: restore it").endswith(words)
    many = EndedLoad(tuple(TableOutcome(f"t{n}", run=1) for n in range(500)), 1.0)
    large = summary_of(report_in(json.dumps(document(many, CONFIG)).encode()))
    assert (len(large["tables"]), large["tables_total"]) == (200, 500)


def test_names_are_arguments() -> None:
    table = "--help; $(reboot)"
    assert load_command("/p", "-c", [table]) == [
        *("/p", "load", "--config=-c", "--json", f"--topics={table}")
    ]
    _, _, *arguments = load_command("/p", "/l.yaml", ["views", "app.*"])
    with command.make_context("load", arguments) as context:
        assert context.params["topics"] == (("views",), ("app.*",))
        assert context.params["config"] == Path("/l.yaml")
    for bad in ("a,b", " "):
        with pytest.raises(ValueError, match="pass each one by itself"):
            load_command("/p", "c", [bad])
    with pytest.raises(ValueError, match="absolute path"):
        load_command("penstock", "c", [])


def shell(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


def test_a_load_that_ends() -> None:
    lines: list[str] = []
    load = LoadProcess(shell('echo "$WORD" >&2; echo "$WORD"; exit 6'), {"WORD": "wörd"})
    assert load.run(lines.append, 30) == (6, "wörd\n".encode())
    assert lines == ["wörd"]
    missing = LoadProcess(["/nowhere/penstock"], {})
    assert missing.run(lines.append, 30)[0] == 127
    assert lines[1:] == ["/nowhere/penstock: No such file or directory"]


def test_a_load_that_is_ended() -> None:
    """By the task's handler of SIGTERM, which runs within the waiting for the load's output."""
    load = LoadProcess(
        shell("trap 'echo over >&2; exit 130' TERM; echo on >&2; while :; do sleep 0.1; done"), {}
    )
    lines: list[str] = []

    def log(line: str) -> None:
        lines.append(line)
        if line == "on":
            load.end()
            load.end()

    assert load.run(log, 30) == (130, b"")
    assert lines == ["on", "over"]


@pytest.mark.parametrize(("trap", "patience"), [("exit 130", 60.0), ("", 0.5)])
def test_a_task_whose_time_is_over_ends_its_load(trap: str, patience: float) -> None:
    """Also one that ignores SIGTERM."""
    load = LoadProcess(shell(f"trap '{trap}' TERM; echo $$ >&2; while :; do sleep 0.1; done"), {})
    pids: list[int] = []

    def log(line: str) -> None:
        pids.append(int(line))
        raise TimeoutError

    with pytest.raises(TimeoutError):
        load.run(log, patience)
    assert not is_alive(pids[0])


def test_a_load_ends_with_its_task(tmp_path: Path) -> None:
    """Even if that is killed by SIGKILL. Airflow's PYTHONPATH is not for the load."""
    own = tmp_path / "pid"
    program = (
        "from airflow_providers_penstock.load_process import LoadProcess\n"
        f"script = 'echo $$$PYTHONPATH > {own}.new; mv {own}.new {own}; exec sleep 600'\n"
        "LoadProcess(['/bin/sh', '-c', script], {}).run(print, 30)"
    )
    path = str(Path("deploy/airflow").resolve())
    with subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}
    ) as task:
        wait_until(own.exists)
        task.send_signal(signal.SIGKILL)
    pid = int(own.read_text())
    wait_until(lambda: not is_alive(pid), what="the end of the load")


def is_alive(pid: int) -> bool:
    """Whether it runs: a process without a parent may stay a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
