"""Ctrl-Z, `bg` and `fg`, as a shell does them, and what the screen makes of them."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

from harness.waiting import wait_until
from tests.penstock.running import REPOSITORY

WITHIN = 60.0
OTHER_SCREEN, FIRST_SCREEN = b"\x1b[?1049h", b"\x1b[?1049l"
# A shell with job control, which goes on when its job stands still.
SHELL = """
"$0" -c "$1" "$2"
echo it stands still; bg; read -r line < "$2.go"; fg
"""
SHOWING = """
import sys, time
from pathlib import Path
from penstock.directory.places import Addresses, Places
from penstock.up.screen import watching

shown, until = Path(sys.argv[1]), Path(f"{sys.argv[1]}.end")
screen = watching(sys.stdout, Places(Path("/any")), Addresses())
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
    shown = tmp_path / "shown"
    os.mkfifo(f"{shown}.go")
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    shell = ["bash", "--norc", "-m", "-c", SHELL, sys.executable, SHOWING, str(shown)]
    with subprocess.Popen(
        ["setsid", "--ctty", *shell],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=REPOSITORY,
        env={**os.environ, "TERM": "xterm"},
    ) as process:
        os.close(terminal)
        try:
            _read_until(main, OTHER_SCREEN)
            os.write(main, b"\x1a")  # Ctrl-Z
            left = _read_until(main, b"it stands still")
            assert FIRST_SCREEN in left
            before = _times(shown)
            wait_until(lambda: _times(shown) > before + 3, within=WITHIN, what="it goes on")
            assert b"\x1b[" not in _written(main), "in the background nothing is drawn"
            Path(f"{shown}.go").write_text("now\n")
            _read_until(main, OTHER_SCREEN)
            Path(f"{shown}.end").touch()
            assert b"a note" in _read_until(main, FIRST_SCREEN, b"a note")
            assert process.wait(WITHIN) == 0
        finally:
            process.kill()
            os.close(main)


def _times(shown: Path) -> int:
    return int(shown.read_text() or 0)


def _read_until(terminal: int, *wanted: bytes) -> bytes:
    """What was written up to where these have come one after the other."""
    written = b""
    deadline = time.monotonic() + WITHIN
    while not _has(written, wanted):
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"{wanted!r} is not in {written!r}"
        written += os.read(terminal, 10_000)
    return written


def _has(written: bytes, wanted: tuple[bytes, ...]) -> bool:
    at = 0
    for each in wanted:
        at = written.find(each, at)
        if at < 0:
            return False
    return True


def _written(terminal: int) -> bytes:
    """What can be read just now."""
    written = b""
    while select.select([terminal], [], [], 0)[0]:
        written += os.read(terminal, 10_000)
    return written
