"""Commands whose output is a terminal."""

import fcntl
import os
import pty
import select
import struct
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.penstock.forked import Call
from tests.penstock.running import FORKS, REPOSITORY, WITHIN

_WIDTH = {"COLUMNS", "LINES", "NO_COLOR"}  # that speak of another terminal


@contextmanager
def opened(columns: int = 100, lines: int = 50) -> Iterator[tuple[int, int]]:
    """Who sees the terminal, and who writes to it; that one may be closed before."""
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    try:
        yield main, terminal
    finally:
        os.close(main)


def on_a_terminal(*arguments: str, columns: int = 100, no_color: str = "", code: int = 0) -> str:
    """What `penstock` writes that ends with this code."""
    inherited = {name: value for name, value in os.environ.items() if name not in _WIDTH}
    environment = {**inherited, "TERM": "xterm", "NO_COLOR": no_color}
    with opened(columns) as (main, terminal), open(os.devnull) as nothing:  # noqa: PTH123
        streams = (nothing.fileno(), terminal, terminal)
        call = Call(
            FORKS.address, arguments, streams, environment=environment, folder=str(REPOSITORY)
        )
        os.close(terminal)
        written = b""
        while True:
            try:
                written += os.read(main, 10_000)
            except OSError:  # Linux's way to say that the other side is closed
                break
        assert call.wait(WITHIN) == code
    return written.decode()


@contextmanager
def typed(text: str) -> Iterator[int]:
    """A terminal at which somebody has typed this: for a command's stdin."""
    with opened() as (main, terminal):
        os.write(main, text.encode())
        yield terminal
        os.close(terminal)


def read_until(terminal: int, *wanted: bytes) -> bytes:
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
        at += len(each)
    return True
