"""`penstock up` where there is no terminal."""

import io
import os
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from penstock.directory.places import Addresses, Places, Ports
from penstock.status.values import FailingLoadStatus, PipelineStatus
from penstock.up.programs import ProgramPhase, ProgramStatus
from penstock.up.screen import PlainScreen, screen_for
from tests.penstock.status.made_up import CALM, LOAD, MISSING, status_of, topic
from tests.penstock.status.made_up import NOW as MILLIS
from tests.penstock.up.shown import DEAD, DIRECTORY, NOW, program, programs

TIME = f"{datetime.fromtimestamp(NOW, UTC):%Y-%m-%dT%H:%M:%SZ}"
RUNNING = ProgramPhase.RUNNING


class Watched:
    """A screen, and what it wrote."""

    def __init__(self) -> None:
        self.now = NOW
        self._stream = io.StringIO()
        places, addresses = Places(DIRECTORY), Addresses()
        self._screen = PlainScreen(self._stream, places, addresses, clock=lambda: self.now)

    def shows(
        self, programs: Sequence[ProgramStatus], status: PipelineStatus | None = None
    ) -> list[str]:
        """Without the time, which is the first word of each line that is not indented."""
        begin = self._stream.tell()
        self._screen.show(programs, status)
        self._stream.seek(begin)
        lines = self._stream.read().splitlines()
        return [line if line.startswith(" ") else line.partition(" ")[2] for line in lines]

    def notes(self, text: str) -> str:
        begin = self._stream.tell()
        self._screen.note(text)
        self._stream.seek(begin)
        return self._stream.read()


def test_what_is_no_terminal_gets_lines() -> None:
    screen = screen_for(io.StringIO(), Places(DIRECTORY), Addresses())
    assert isinstance(screen, PlainScreen)
    screen.close()
    screen.close()


def test_a_program_from_its_start_to_its_end() -> None:
    watched = Watched()
    assert watched.shows([program("agent", ProgramPhase.WAITING)]) == []
    starting = program("agent", ProgramPhase.STARTING, since=NOW - 5)
    assert watched.shows([starting]) == ["agent starts"]
    assert watched.shows([starting]) == []
    assert watched.shows([program("agent", since=NOW)]) == [
        "agent runs at 127.0.0.1:2003 after 5 s",
        "all programs run: dashboard http://127.0.0.1:8090, data in /somewhere/penstock-data",
    ]
    died = DEAD._replace(name="agent")
    assert watched.shows([died]) == [
        "agent died: killed by SIGKILL; it is started again in 5 s; the end of its log:",
        *("    first", "    second \\x1b[2J", "    third", "    fourth"),
    ]
    assert watched.shows([program("agent", ProgramPhase.STARTING, since=NOW)]) == ["agent starts"]
    assert watched.shows([program("agent", since=NOW + 1)]) == [
        "agent runs at 127.0.0.1:2003 after 1 s"
    ]
    assert watched.shows([program("agent", ProgramPhase.STOPPING)]) == ["agent stops"]
    assert watched.shows([program("agent", ProgramPhase.STOPPED)]) == ["agent has stopped"]


def test_at_other_ports_it_says_how_commands_find_it() -> None:
    stream = io.StringIO()
    screen = PlainScreen(stream, Places(DIRECTORY), Addresses(brokers="127.0.0.1:19001"))
    screen.show(programs(), None)
    last = stream.getvalue().splitlines()[-1]
    assert last.endswith(" for commands in a shell: . /somewhere/penstock-data/environment")


def test_behind_locks_it_says_how_to_log_in() -> None:
    stream = io.StringIO()
    PlainScreen(stream, Places(DIRECTORY), Addresses.of(Ports(), secure=True)).show(
        programs(), None
    )
    *_, runs, logs_in, commands = stream.getvalue().splitlines()
    assert "dashboard https://127.0.0.1:8090" in runs
    assert f" as admin, with the password in {DIRECTORY}/security/admin.password; " in logs_in
    assert commands.endswith("/environment")


def test_a_program_that_dies_again_is_said_again() -> None:
    watched = Watched()
    died = program("audit", ProgramPhase.DEAD, since=NOW, ended="exit code 1", retry_at=NOW + 1)
    words = "audit died: exit code 1; it is started again in 1 s"
    assert watched.shows([died]) == [words]
    assert watched.shows([died._replace(since=NOW + 9, retry_at=NOW + 10)]) == [words]


def test_figures_come_each_minute_and_when_something_is_wrong() -> None:
    watched = Watched()
    watched.shows(programs())
    well = status_of([topic("a"), topic("b")], load=LOAD)
    assert watched.shows(programs(), well) == []
    watched.now += 60
    later = status_of([topic("a", 300), topic("b", 100)], load=LOAD, now=MILLIS + 10_000)
    assert watched.shows(programs(), later) == [
        f"{CALM}; 2 topics; 20 events/s; "
        "4.0 KiB not read; last load 22 s ago: 4,000 rows of 2 topics, 50 not landed yet"
    ]
    assert watched.shows(programs(), later) == []
    watched.now += 60
    (line,) = watched.shows(programs(), status_of([topic("a")], alerts=-1, now=MILLIS + 15_000))
    assert "loaded" not in line, "only the audit knows of loads"
    wrong = status_of(
        [topic("a", state="missing", kinds=(MISSING,))], verdict="missing", now=MILLIS + 20_000
    )
    (line,) = watched.shows(programs(), wrong)
    assert line.startswith("missing: 3 events have not arrived; 1 topic; ")
    assert watched.shows(programs(), wrong) == []
    hangs = "no registry at http://h:1: no answer within 2 s"
    silent = replace(wrong, problems=(hangs, "audit: it reads slowly"))
    started = programs(RUNNING, program("registry", since=watched.now - 1))
    assert [watched.shows(started, silent)[1:], watched.shows(programs(), wrong)[1:]] == [[], []]
    assert [watched.shows(programs(), silent)[-1:] for _ in range(2)] == [[hangs], []]


def test_a_table_that_cannot_be_loaded_is_said_at_once_and_once() -> None:
    watched = Watched()
    watched.shows(programs())
    failing = FailingLoadStatus(topic="t", since=MILLIS - 5_000, reason="all dead", cure="mend it")
    said = status_of([topic("t", state="complete")], verdict="complete", load=LOAD)
    fails = msgspec.structs.replace(said, failing_loads=(failing,))
    words = "t is not loaded, for 5 s: all dead; what to do: mend it"
    assert watched.shows(programs(), fails) == [words]
    assert watched.shows(programs(), fails) == []
    watched.now += 61
    (figures,) = watched.shows(programs(), fails)
    assert figures.startswith(f"not loaded: 1 table cannot be loaded; {words}; ")
    assert watched.shows(programs(), said) == ["t is loaded again"]


def test_a_reader_that_has_gone_ends_nothing() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as stream:  # noqa: PTH123 it is no path
        screen = PlainScreen(stream, Places(DIRECTORY), Addresses())
        screen.show(programs(), None)
        screen.note("again")
        screen.close()


def test_a_note_is_one_line() -> None:
    assert Watched().notes("the agent\nis killed") == f"{TIME} the agent\\nis killed\n"
