"""`penstock report`: what is asked, and the exit code that it comes to."""

import json
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from audit.alerting.answers import NotedAlert, NotedAlerts
from audit.api.answers import ListPage, Problem, ReportAnswer, TopicReport
from audit.reconciling.findings import CommandKind, State
from harness.penstock.audit import AuditProcess
from penstock.cli.time_arguments import DAY_MILLIS, HOUR_MILLIS
from penstock.report.audit_requests import verdict
from penstock.report.command import command, exit_code
from tests.penstock.answering_audit import Query, always, answering
from tests.penstock.report.made_up_report import (
    COMPLETE,
    HOUR,
    MISSING,
    MORNING,
    NOT_LOADED,
    PENDING,
    report,
    tier,
    topic,
)
from tests.penstock.running import penstock

# Empty beside a topic with events.
NO_FAULT = {State.EMPTY: 0, State.COMPLETE: 0, State.PENDING: 2, State.UNKNOWN: 3}
EVERY_STATE = dict.fromkeys(State, 1) | NO_FAULT
NO_TOPIC = report(COMPLETE, topics=[])
ASKED = ("--hour", "2026-11-20T07")


@pytest.mark.parametrize("state", State)
def test_the_exit_code_is_the_verdict(state: State) -> None:
    assert exit_code(report(topic("a", state=state), COMPLETE)) == EVERY_STATE[state]


QUIET = topic("quiet", state=State.EMPTY, tiers=[tier("agent", 0), tier("broker", 0)])
HALF = topic("half", tiers=[tier("agent", 3), tier("hdfs", 3, "a"), tier("hdfs", 2, "b")])


@pytest.mark.parametrize(
    ("topics", "at_least", "code"),
    [
        ([QUIET], None, 6),
        ([QUIET, QUIET], None, 6),
        ([QUIET], 0, 0),
        ([QUIET, COMPLETE], None, 0),
        ([QUIET, COMPLETE], 1, 6),
        ([COMPLETE], 1_200, 0),
        ([COMPLETE], 1_201, 6),
        ([HALF], 3, 6),
        ([MISSING], 1_000_000, 1),
        ([PENDING], 1_000_000, 2),
    ],
)
def test_too_few_events_prove_nothing(
    topics: list[TopicReport], at_least: int | None, code: int
) -> None:
    assert exit_code(report(*topics), at_least) == code


@pytest.mark.parametrize(
    ("whole_hours", "later", "code"),
    [(COMPLETE, MISSING, 1), (QUIET, MISSING, 1), (QUIET, COMPLETE, 0), (QUIET, QUIET, 6)],
)
def test_events_in_the_hour_under_way(
    whole_hours: TopicReport, later: TopicReport, code: int
) -> None:
    page = ListPage(page=1, size=100, total=0)

    def answers(path: str, query: Query) -> tuple[int, bytes]:
        if path == "alerts":
            return 200, msgspec.json.encode(NotedAlerts(page=page, items=[]))
        begin, end = int(query["from"]), int(query["to"])
        are_whole = end - begin == DAY_MILLIS and end % HOUR_MILLIS == 0
        return 200, msgspec.json.encode(report(whole_hours if are_whole else later))

    with answering(answers) as audit:
        assert penstock("report", "--audit", audit.url).returncode == code


def test_what_has_too_few_events_is_on_stderr() -> None:
    with answering(always(report(QUIET, HALF, COMPLETE))) as audit:
        ended = penstock("report", *ASKED, "--audit", audit.url, "--at-least", "3")
    assert (ended.returncode, ended.stderr.splitlines()) == (
        *(6, ["quiet: 0 of at least 3 events", "half: 2 of at least 3 events"]),
    )


@pytest.mark.parametrize("state", [*State])
def test_a_table_that_cannot_be_loaded_is_no_waiting(state: State) -> None:
    """Whatever is worse comes first."""
    said = report(topic("a", state=state, failing_loads=[NOT_LOADED]), PENDING)
    assert exit_code(said) == (EVERY_STATE[state] if state.is_fault else 5)


def test_nothing_is_complete_of_which_nothing_is_known() -> None:
    assert verdict(NO_TOPIC) is State.PENDING
    assert verdict(report(MISSING, as_of=MORNING)) is State.MISSING
    over = MORNING + HOUR
    assert verdict(report(COMPLETE, as_of=over - 1, now=over + 60_000)) is State.PENDING
    assert verdict(report(COMPLETE, as_of=over, now=over + 60_000)) is State.COMPLETE
    now = over - HOUR // 2  # a ledger that is read all the time is known up to now
    assert verdict(report(COMPLETE, as_of=now - 500, now=now)) is State.COMPLETE
    assert verdict(report(COMPLETE, as_of=now - 60_001, now=now)) is State.PENDING


def test_alerts_that_are_raised_stand_below_the_headline() -> None:
    known: dict[str, Any] = {"id": "", "severity": "warning", "kind": "silent", "cluster": "dc1"}
    known |= {"topic": "", "host": "web-2", "words": "web-2 is silent"}
    known |= {"command": "systemctl restart penstock-agent", "command_kind": CommandKind.MENDS}
    alert = NotedAlert(raised=MORNING, resolved=-1, **known)
    late = msgspec.structs.replace(alert, kind="missing", hour=MORNING)
    page = ListPage(page=1, size=100, total=2)
    raised = NotedAlerts(page=page, items=[late, alert])

    def answers(path: str, _: Query) -> tuple[int, bytes]:
        return 200, msgspec.json.encode(raised if path == "alerts" else report(COMPLETE))

    def lines(*day: str) -> list[str]:
        return penstock("report", "--audit", audit.url, *day).stdout.splitlines()[2:4]

    shown = [
        "! silent, raised 2026-11-20 07:00: web-2 is silent",
        "  what to do: systemctl restart penstock-agent",
    ]
    with answering(answers) as audit:
        assert [lines(), lines("--day", "today")] == [shown, shown]
        assert shown[0] not in lines("--day", "yesterday")


def test_the_verdict_of_an_hour() -> None:
    with answering(always(report(MISSING, COMPLETE))) as audit:
        ended = penstock("report", *ASKED, "--audit", audit.url)
        assert (ended.returncode, ended.stderr) == (1, "")
        assert ended.stdout.startswith(
            "✗ missing at the brokers: 12 events of clicks, host web-3\n"
        )
        as_json = penstock("report", *ASKED, "--audit", audit.url, "--json")
    assert as_json.returncode == 1
    assert msgspec.convert(json.loads(as_json.stdout), ReportAnswer) == report(MISSING, COMPLETE)
    assert audit.asked[0] == ("report", {"from": str(MORNING), "to": str(MORNING + HOUR)})


def test_several_topics_of_a_cluster() -> None:
    def answers(_: str, query: Query) -> tuple[int, bytes]:
        found = {"orders": PENDING, "page_views": COMPLETE}[query["topic"]]
        return 200, msgspec.json.encode(report(found))

    with answering(answers) as audit:
        arguments = ("orders", "page_views", "orders", "--cluster", "dc1", "--audit", audit.url)
        ended = penstock("report", *arguments, *ASKED, "--json")
    assert ended.returncode == 2
    said = msgspec.convert(json.loads(ended.stdout), ReportAnswer)
    assert (said.state, said.topics) == (State.PENDING, [PENDING, COMPLETE])
    assert [query["topic"] for _, query in audit.asked] == ["orders", "page_views"]
    assert {query["cluster"] for _, query in audit.asked} == {"dc1"}


@pytest.mark.parametrize(
    ("given", "begin", "end"),
    [
        (["--day", "2025-11-20"], "2025-11-20T00:00Z", "2025-11-21T00:00Z"),
        (["--hour", "dt=2025-11-20/hour=07"], "2025-11-20T07:00Z", "2025-11-20T08:00Z"),
        (
            ["--from", "2025-11-20T06:30", "--to", "2025-11-20T08:15+01:00"],
            "2025-11-20T06:30Z",
            "2025-11-20T07:15Z",
        ),
    ],
)
def test_the_time_that_it_is_about(given: list[str], begin: str, end: str) -> None:
    with answering(always(report(COMPLETE))) as audit:
        assert run(*given, "--audit", audit.url) == 0
    times = [str(int(datetime.fromisoformat(each).timestamp() * 1000)) for each in (begin, end)]
    assert [audit.asked[0][1][key] for key in ("from", "to")] == times


def test_what_is_still_to_come_is_not_asked_for() -> None:
    before = int(datetime.now(UTC).timestamp() * 1000)
    with answering(always(report(COMPLETE))) as audit:
        run("--day", "today", "--json", "--audit", audit.url)
        run("--from", "2026-11-01", "--json", "--audit", audit.url)
    after = int(datetime.now(UTC).timestamp() * 1000)
    assert all(before <= int(query["to"]) <= after for _, query in audit.asked)


def test_a_page_beside_what_is_printed(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    with answering(always(report(COMPLETE))) as audit:
        ended = penstock("report", *ASKED, "--audit", audit.url, "--html", str(page))
        alone = penstock("report", *ASKED, "--audit", audit.url, "--html", "-")
    assert ended.stdout.startswith("✓ complete: every line is accounted for\n")
    assert page.read_text() == alone.stdout
    assert page.read_text().startswith("<!doctype html>")


def run(*arguments: str) -> int:
    """In this process: the exit code of a verdict."""
    with command.make_context("report", list(arguments)) as context:
        code = command.invoke(context)
    assert isinstance(code, int)
    return code


def refused(*arguments: str) -> str:
    """What is said where there is no verdict; the exit code is none of a verdict's."""
    with pytest.raises(click.ClickException) as error:
        run(*arguments)
    assert error.value.exit_code == 4
    return error.value.format_message()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--dya", "today"], "--dya"),
        (["--day", "2026-02-30"], "is not a day such as 2026-11-20"),
        (["--hour", "2026-11-20T07:30"], "is not an hour such as"),
        (["--from", "soon"], "is not a time such as"),
        (["--to", "2026-11-20"], "--to needs --from"),
        (["--day", "today", "--hour", "2026-11-20T07"], "pass only one of --day"),
        (["--from", "2026-11-20", "--to", "2026-11-19"], "the range must begin before its end"),
        (["--day", "9000-01-01"], "before now"),
        (["--audit", "file:///etc/passwd"], "is not the URL of an audit"),
        (["--audit", "http://"], "is not the URL of an audit"),
        (["--audit", "http://a:b@c/"], "is not the URL of an audit"),
        (["--audit", "http://a:99999"], "is not the URL of an audit"),
    ],
)
def test_wrong_usage_is_no_verdict(wrong: list[str], said: str) -> None:
    line = refused(*wrong)
    assert said in line
    assert line.endswith("(see penstock report --help)")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((404, msgspec.json.encode(Problem(error="no topic\x1b[2J"))), "no topic\\x1b[2J (audit"),
        ((502, b"<html>Bad gateway"), "502: <html>Bad gateway"),
        ((200, b"<html>"), "is not an audit of this release"),
        ((200, b'{"state": "splendid"}'), "is not an audit of this release"),
        ((200, b"\xff"), "is not an audit of this release"),
        ((200, b"[" * 60_000), "is not an audit of this release"),
        ((502, b"[" * 60_000), "502: [["),
        ((200, msgspec.json.encode(NO_TOPIC)), "topic clicks is unknown to the audit"),
    ],
)
def test_what_an_audit_does_not_say(answer: tuple[int, bytes], said: str) -> None:
    with answering(lambda _path, _query: answer) as audit:
        assert said in refused("clicks", *ASKED, "--audit", audit.url)


def test_an_audit_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("PENSTOCK_AUDIT", url)
        monkeypatch.setenv("PENSTOCK_UP", "/a b")
        restart = "; what to do: penstock up --restart audit --dir '/a b'"
        assert refused() == f"no audit answers at {url}: no answer within 3 s{restart}"


def test_a_page_that_cannot_be_written(tmp_path: Path) -> None:
    with answering(always(report(MISSING))) as audit:
        page = tmp_path / "absent" / "report.html"
        line = refused(*ASKED, "--audit", audit.url, "--html", str(page))
    assert "No such file or directory" in line


def test_an_audit_that_has_read_no_ledger(tmp_path: Path) -> None:
    """The real one."""
    with AuditProcess(tmp_path) as audit:
        ended = penstock("report", *ASKED, "--audit", audit.url)
        unknown = penstock("report", "clicks", "--audit", audit.url)
    assert ended.returncode == 2
    assert ended.stdout.startswith("… pending: ")
    assert unknown.returncode == 4
