"""The screen of `penstock up` on a real terminal."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest

from harness.processes.waiting import wait_until
from penstock.directory.places import Addresses, Places
from penstock.up.screen import PlainScreen, Screen, screen_for
from penstock.up.screen_terminal import TerminalScreen
from tests.penstock.running import REPOSITORY
from tests.penstock.status.made_up import status_of, topic
from tests.penstock.terminals import opened, read_until
from tests.penstock.up.shown import DIRECTORY, NOW, program, programs

OTHER_SCREEN, FIRST_SCREEN = "\x1b[?1049h", "\x1b[?1049l"
GREEN = "\x1b[32m"


class Terminal:
    """One side writes, the other sees."""

    def __init__(self, seen_by: int, stream: TextIO) -> None:
        self._seen_by = seen_by
        self.stream = stream
        self.resize(80, 24)

    def resize(self, columns: int, lines: int) -> None:
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self.stream.fileno(), termios.TIOCSWINSZ, size)

    def seen(self) -> str:
        """What was written since it was last asked."""
        written = b""
        try:
            while True:
                written += os.read(self._seen_by, 100_000)
        except BlockingIOError:
            return written.decode()

    def hold(self) -> None:
        """As Ctrl-S does."""
        termios.tcflow(self.stream.fileno(), termios.TCOOFF)

    def let_go(self) -> None:
        termios.tcflow(self.stream.fileno(), termios.TCOON)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    seen_by, written_to = pty.openpty()
    os.set_blocking(seen_by, False)
    tty.setraw(written_to)
    try:
        with open(written_to, "w", encoding="utf-8") as stream:  # noqa: PTH123 it is no path
            yield Terminal(seen_by, stream)
    finally:
        os.close(seen_by)


@contextmanager
def screen_on(terminal: Terminal) -> Iterator[Screen]:
    screen = screen_for(terminal.stream, Places(DIRECTORY), Addresses())
    try:
        yield screen
    finally:
        screen.close()


def test_it_is_the_other_screen_until_it_is_closed(terminal: Terminal) -> None:
    with screen_on(terminal) as screen:
        assert isinstance(screen, TerminalScreen)
        screen.show(programs(), status_of([topic("logs")]))
        seen = terminal.seen()
        assert seen.startswith(OTHER_SCREEN)
        for shown in ("zookeeper", "logs", "http://127.0.0.1:8090", GREEN):
            assert shown in seen
        screen.note("the agent is \x1b[2Jkilled")
        assert "the agent is \\x1b[2Jkilled" in terminal.seen()
        screen.close()
        seen = terminal.seen()
        assert FIRST_SCREEN in seen
        # Notes stay, on the screen that was there before.
        assert seen.partition(FIRST_SCREEN)[2].endswith("  the agent is \\x1b[2Jkilled\n")
        screen.close()
        assert terminal.seen() == ""


def test_a_note_has_a_time_of_utc(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """As everything else that is shown, wherever the screen is."""
    with screen_on(terminal) as screen, monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "Asia/Kathmandu")
        time.tzset()
        screen.note("a note")
        found = re.search(r"(\d\d):(\d\d):(\d\d)Z  a note", terminal.seen())
    time.tzset()
    assert found
    hours, minutes, seconds = map(int, found.groups())
    ago = time.time() % 86_400 - (hours * 3600 + minutes * 60 + seconds)
    assert ago % 86_400 < 600


def test_a_note_about_lines_to_come_goes_when_they_come(terminal: Terminal) -> None:
    with screen_on(terminal) as screen:
        screen.note("no file yet", until="shop")
        screen.note("no other file", until="logs")
        for end in (7, 7):  # what an earlier run has left
            screen.show(programs(), status_of([topic("shop", end)]))
        screen.note("a note")
        assert "no file yet" in terminal.seen()
        screen.show(programs(), status_of([topic("shop", 8)]))
        screen.close()
        last_words = terminal.seen().partition(FIRST_SCREEN)[2]
    assert "no file yet" not in last_words
    assert "no other file" in last_words
    assert "a note" in last_words


def test_nothing_is_cleared_before_it_is_written_anew(terminal: Terminal) -> None:
    with screen_on(terminal) as screen:
        screen.show(programs(), None)
        screen.show(programs(), None)
        assert terminal.seen().count("zookeeper") == 1  # twice a second is often enough
        screen.show(programs()[:5], None)
        seen = terminal.seen()
        assert seen.startswith("\x1b[H")
        assert "\x1b[2J" not in seen
        assert seen.endswith("\x1b[K\x1b[J")


def test_without_colours_nothing_is_lost(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with screen_on(terminal) as screen:
        screen.show(programs(), status_of([topic("logs", state="complete")], verdict="complete"))
        seen = terminal.seen()
    assert GREEN not in seen
    assert "✓ complete" in seen


def test_while_brokers_are_away_what_was_known_of_topics_stays(terminal: Terminal) -> None:
    nothing = status_of(problems=["no broker"])
    nothing = type(nothing)(now=nothing.now, problems=nothing.problems)
    starting = program("broker", programs()[1].phase.STARTING, since=NOW)
    with screen_on(terminal) as screen:
        screen.show(programs(), status_of([topic("logs")]))
        terminal.seen()
        screen.show(programs(programs()[1].phase, starting), nothing)
        assert "logs" in terminal.seen()
        screen.show(programs(), nothing)
        assert "no broker" in terminal.seen()


def test_a_terminal_that_is_held_holds_up_nothing(terminal: Terminal) -> None:
    with screen_on(terminal) as screen:
        terminal.hold()
        screen.note("a line")
        screen.show(programs(), None)
        assert terminal.seen() == ""
        terminal.let_go()
        screen.note("again")
        assert "again" in terminal.seen()


def test_a_terminal_that_has_gone_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    seen_by, written_to = pty.openpty()
    with open(written_to, "w", encoding="utf-8") as stream:  # noqa: PTH123 it is no path
        screen = screen_for(stream, Places(DIRECTORY), Addresses())
        screen.show(programs(), None)
        os.close(seen_by)
        screen.note("a line")
        screen.show(programs()[:5], None)
        screen.close()


def test_a_dumb_terminal_gets_lines(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with screen_on(terminal) as screen:
        assert isinstance(screen, PlainScreen)


# A shell with job control, which goes on when its job stands still.
SHELL = """
"$0" -c "$1" "$2"
echo it stands still; bg; read -r line < "$2.go"; fg
"""
SHOWING = """
import sys, time
from pathlib import Path
from penstock.directory.places import Addresses, Places
from penstock.up.screen import screen_for

shown, until = Path(sys.argv[1]), Path(f"{sys.argv[1]}.end")
screen = screen_for(sys.stdout, Places(Path("/any")), Addresses())
screen.note("a note")
times = 0
while not until.exists():
    screen.note("again")
    times += 1
    shown.write_text(str(times))
    screen.show((), None)
    time.sleep(0.01)
screen.close()
"""


def test_it_leaves_the_terminal_to_others_while_it_is_not_in_front(tmp_path: Path) -> None:
    """Ctrl-Z, `bg` and `fg`, as a shell does them."""
    shown = tmp_path / "shown"
    os.mkfifo(f"{shown}.go")

    def times() -> int:
        return int(shown.read_text() or 0)

    shell = ["bash", "--norc", "-m", "-c", SHELL, sys.executable, SHOWING, str(shown)]
    with (
        opened(columns=80, lines=24) as (main, terminal),
        subprocess.Popen(
            ["setsid", "--ctty", *shell],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            cwd=REPOSITORY,
            env={**os.environ, "TERM": "xterm"},
        ) as process,
    ):
        os.close(terminal)
        try:
            read_until(main, OTHER_SCREEN.encode())
            os.write(main, b"\x1a")  # Ctrl-Z
            left = read_until(main, b"it stands still")
            assert FIRST_SCREEN.encode() in left
            before = times()
            wait_until(lambda: times() > before + 3, what="it goes on")
            assert b"\x1b[" not in _written(main), "in the background nothing is drawn"
            Path(f"{shown}.go").write_text("now\n")
            read_until(main, OTHER_SCREEN.encode())
            Path(f"{shown}.end").touch()
            assert b"a note" in read_until(main, FIRST_SCREEN.encode(), b"a note")
            assert process.wait(60) == 0
        finally:
            process.kill()


def _written(terminal: int) -> bytes:
    """What can be read just now."""
    written = b""
    while select.select([terminal], [], [], 0)[0]:
        written += os.read(terminal, 10_000)
    return written
