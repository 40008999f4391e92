"""`penstock agent --status`: what is asked of an agent's port, and how it is shown."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from agent.configuration.refusals import Refusal
from agent.monitoring.status import (
    STATUS_PATH,
    AgentPhase,
    FileStatus,
    InputStatus,
    JournalStatus,
    Status,
    TopicStatus,
)
from ground.http.client import HttpUrl
from ground.http.page_server import Page, PageServer
from penstock.cli.failures import Failed
from penstock.services.agent_status import ask_status, listening, read_status, show_status
from tests.ground.peers import peer


def file(path: str, lag: int, **more: object) -> FileStatus:
    known = FileStatus(
        path=path,
        source="a1-7",
        input="app",
        topic="app_logs",
        size=1000 + lag,
        position=1000,
        acknowledged=1000,
        lag_bytes=lag,
        lag_seconds=1.26,
    )
    return msgspec.structs.replace(known, **more)


STATUS = Status(
    phase=AgentPhase.RUNNING,
    version="1",
    agent="a1",
    host="web-1",
    cluster="dc1",
    registry="no registry at http://r:8081: connection refused",
    inotify="no watches left",
    copied_from="a0",
    files=(
        file("/var/log/quiet.log", 0),
        file("/var/log/busy.log", 5000, error="permission denied"),
        file("/var/log/gone.log", 70, deleted=True),
    ),
    inputs=(InputStatus(name="app", topic="app_logs", files=3, events=12, stopped="no schema"),),
    topics=(TopicStatus(name="app_logs", partitions=(2,), schema_id=7, schema_version=3),),
    refusals=(Refusal(path="/etc/x.yaml", why="line 1: unknown key"),),
    journal=JournalStatus(damage="12 bytes were cut off"),
)


@contextmanager
def port_with(**pages: Page) -> Iterator[HttpUrl]:
    """A port at which this status is read, or nothing."""
    server = PageServer("127.0.0.1", 0, {STATUS_PATH: lambda: pages["status"]} if pages else {})
    server.start()
    try:
        yield listening("127.0.0.1", server.port)
    finally:
        server.stop()


@pytest.fixture
def at() -> Iterator[HttpUrl]:
    with port_with(status=Page(msgspec.json.encode(STATUS) + b"\n", "application/json")) as url:
        yield url


def test_every_file_is_shown_with_the_laggards_first(
    at: HttpUrl, capsys: pytest.CaptureFixture[str]
) -> None:
    show_status(read_status(ask_status(at)))
    shown = capsys.readouterr().out
    head = "agent a1 on web-1, cluster dc1: running, 3 files, 5,070 bytes behind\n"
    assert shown.startswith(head)
    rows = [line.split() for line in shown.splitlines()]
    places = [rows.index(row) for row in rows if row and row[0].startswith("/var/log/")]
    names = [rows[place][0].rpartition("/")[2] for place in places]
    assert names == ["busy.log", "gone.log", "quiet.log"]
    assert " ".join(rows[places[0]][1:]) == "a1-7 app 6000 1000 5000 1.3 permission denied"
    assert rows[places[1]][1] == "(deleted)"
    assert ["app", "app_logs", "3", "0", "12", "0", "0", "0", "no", "schema"] in rows
    assert ["app_logs", "2", "v3", "(id", "7)", "0", "0", "0", "-"] in rows


def test_what_somebody_should_know_comes_first(
    at: HttpUrl, capsys: pytest.CaptureFixture[str]
) -> None:
    show_status(read_status(ask_status(at)))
    before_tables = capsys.readouterr().out.partition("\n\n")[0]
    for remark in (
        "not ready: input app: no schema; /etc/x.yaml: line 1: unknown key",
        "registry: no registry at",
        "inotify: no watches left",
        "journal: 12 bytes were cut off",
        "its data directory is a copy of agent a0's",
    ):
        assert f"\n{remark}" in before_tables


def test_an_agent_that_is_all_right_says_no_more_than_it_must(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_status(Status(phase=AgentPhase.RUNNING, version="1", agent="a1", host="h", cluster="c"))
    shown = capsys.readouterr().out
    assert shown == "agent a1 on h, cluster c: running, 0 files, 0 bytes behind\n"


def test_an_address_that_stands_for_all_is_asked_on_this_machine(at: HttpUrl) -> None:
    assert read_status(ask_status(listening("0.0.0.0", at.port))) == STATUS


def test_something_else_answers() -> None:
    for body in (b"<html>", b'{"phase": "resting"}', b"[]", b"\xff"):
        with port_with(status=Page(body)) as url:
            answer = ask_status(url)
        with pytest.raises(Failed, match="not an agent of this release"):
            read_status(answer)
    with port_with() as url, pytest.raises(Failed, match="is not an agent: 404 not found; pages:"):
        ask_status(url)


def test_what_speaks_no_http() -> None:
    greeting = b"220 mail.example.com ESMTP\r\n"
    refused = pytest.raises(Failed, match="is not an agent: it does not speak HTTP")
    with peer(lambda connection: connection.sendall(greeting)) as port, refused:
        ask_status(listening("127.0.0.1", port))


def test_what_was_altered_is_said_of_each_input(capsys: pytest.CaptureFixture[str]) -> None:
    altered = InputStatus(name="app", topic="t", replaced_lines=9, replaced_characters=12)
    altered = msgspec.structs.replace(altered, cut_lines=1, dropped_values=2, unread_files=1)
    show_status(msgspec.structs.replace(STATUS, inputs=(altered,)))
    assert (
        "input app: 9 lines had invalid characters, 1 line was cut, 2 field values were dropped, "
        "1 archive was not read\n"
    ) in capsys.readouterr().out
