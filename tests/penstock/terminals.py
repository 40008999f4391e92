"""Commands whose output is a terminal."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Sequence

from tests.penstock.running import REPOSITORY

_LINES = 50
_WIDTH = {"COLUMNS", "LINES", "NO_COLOR"}  # that speak of another terminal


def on_a_terminal(arguments: Sequence[str], *, columns: int = 100, no_color: str = "") -> str:
    """What a command writes that ends well."""
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, columns, 0, 0))
    with subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=terminal,
        cwd=REPOSITORY,
        env={name: value for name, value in os.environ.items() if name not in _WIDTH}
        | {"TERM": "xterm", "NO_COLOR": no_color},
    ) as process:
        os.close(terminal)
        written = b""
        while True:
            try:
                written += os.read(main, 10_000)
            except OSError:  # Linux's way to say that the other side is closed
                break
        os.close(main)
        assert process.wait(60) == 0
    return written.decode()
