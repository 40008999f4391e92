"""Runs commands on a terminal, and keeps what was on its screen and when.

The screen knows what Penstock's commands send: text, colours, the other screen, and the few
movements of `penstock status --watch`. Anything else is an error, not a wrong picture.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

_READ: Final = 65_536
_PAUSE: Final = 0.05
_PATIENCE: Final = 120.0
_TOKEN: Final = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")


class Style(NamedTuple):
    """How a character is drawn; colours are numbers from 0 to 7."""

    colour: int | None = None
    bold: bool = False


class Span(NamedTuple):
    """Characters of one style, from a column on."""

    column: int
    text: str
    style: Style


Row = tuple[Span, ...]
Rows = tuple[Row, ...]


class Frame(NamedTuple):
    """The screen as it was from a time on, in seconds."""

    time: float
    rows: Rows
    title: str
    is_result: bool = False  # what a command left behind


PLAIN: Final = Style()
_Cells = list[tuple[str, Style]]


class Screen:
    """A terminal's screen, and the other one that is shown meanwhile."""

    def __init__(self, columns: int, rows: int) -> None:
        self._columns = columns
        self._most_rows = rows
        self._lines: list[_Cells] = [[]]
        self._row = self._column = 0
        self._style = PLAIN
        self._first: tuple[list[_Cells], int] | None = None  # while the other screen is shown

    def feed(self, text: str) -> None:
        """Raises ValueError for what it does not know."""
        at = 0
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token is None:
                raise ValueError(f"the screen does not know {text[at : at + 20]!r}")
            at = token.end()
            parameters, command, control, plain = token.groups()
            if command:
                self._control(parameters, command)
            elif control == "\r":
                self._column = 0
            elif control:
                self._new_line()
            else:
                self._write(plain)

    def rows(self) -> Rows:
        return tuple(map(_row, self._lines))

    def _write(self, text: str) -> None:
        for character in text:
            if self._column == self._columns:
                if self._first is not None:
                    return  # the other screen wraps nothing
                self._column = 0
                self._new_line()
            line = self._lines[self._row]
            line.extend([(" ", PLAIN)] * (self._column + 1 - len(line)))
            line[self._column] = (character, self._style)
            self._column += 1

    def _new_line(self) -> None:
        self._row += 1
        if self._row == len(self._lines):
            self._lines.append([])
        if len(self._lines) > self._most_rows:
            del self._lines[0]
            self._row -= 1

    def _control(self, parameters: str, command: str) -> None:
        match command, parameters:
            case "m", _:
                for code in parameters.split(";"):
                    self._style = _styled(self._style, int(code or 0))
            case "H", "":
                self._row = self._column = 0
            case "K", "":
                del self._lines[self._row][self._column :]
            case "J", "":
                del self._lines[self._row][self._column :]
                del self._lines[self._row + 1 :]
            case "h", "?1049":
                self._first = self._lines, self._row
                self._lines, self._row, self._column = [[]], 0, 0
            case "l", "?1049" if self._first is not None:
                (self._lines, self._row), self._column = self._first, 0
                self._first = None
            case (("h" | "l"), ("?25" | "?7" | "?2004")):  # the cursor, wrapping, pasting
                pass
            case _:
                raise ValueError(f"the screen does not know ESC [ {parameters} {command}")


def _styled(style: Style, code: int) -> Style:
    if code == 0:
        return PLAIN
    if code in {1, 22}:
        return style._replace(bold=code == 1)
    if 30 <= code <= 37:
        return style._replace(colour=code - 30)
    if 90 <= code <= 97:
        return style._replace(colour=code - 90)
    if code == 39:
        return style._replace(colour=None)
    raise ValueError(f"the screen does not know the style {code}")


def _row(cells: _Cells) -> Row:
    """Without spaces at the end; several spaces are no part of a span."""
    spans: list[Span] = []
    for column, (character, style) in enumerate(cells):
        last = spans[-1] if spans else None
        if last and last.style == style and last.column + len(last.text) == column:
            spans[-1] = last._replace(text=last.text + character)
        elif character != " ":
            spans.append(Span(column, character, style))
    return tuple(
        Span(span.column + found.start(), found[0], span.style)
        for span in spans
        for found in re.finditer(r"\S+(?: \S+)*", span.text)
    )


class Terminal:
    """A terminal on which commands are typed one after the other."""

    def __init__(self, columns: int, rows: int, environment: Mapping[str, str]) -> None:
        self.frames: list[Frame] = []
        self.title = ""
        self._size = struct.pack("HHHH", rows, columns, 0, 0)
        self._environment = {**os.environ, **environment, "TERM": "xterm-256color"}
        self._screen = Screen(columns, rows)
        self._began = time.monotonic()

    def run(
        self,
        prompt: str,
        typed: str,
        command: Sequence[str],
        until: Callable[[], bool] | None = None,
    ) -> None:
        """Shows `typed` and runs `command`, to its end or by Ctrl-C when `until` is true."""
        self._screen.feed(f"\x1b[1m{prompt}\x1b[0m ")
        self._keep()
        self._screen.feed(f"{typed}\r\n")
        self._keep()
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, self._size)
        child = subprocess.Popen(
            command, stdin=its, stdout=its, stderr=its, env=self._environment, process_group=0
        )
        os.close(its)
        try:
            self._follow(child, ours, until)
        finally:
            child.kill()
            child.wait()
            os.close(ours)
        self._keep()
        self.frames[-1] = self.frames[-1]._replace(is_result=True)

    def shows(self, text: str) -> bool:
        """Whether it is on the screen now."""
        return any(text in span.text for row in self._screen.rows() for span in row)

    def _follow(
        self, child: "subprocess.Popen[bytes]", ours: int, until: Callable[[], bool] | None
    ) -> None:
        """Until it has ended, and all that it wrote is read."""
        end = time.monotonic() + _PATIENCE
        left = b""
        while time.monotonic() < end:
            readable, _, _ = select.select([ours], [], [], _PAUSE)
            if readable:
                try:
                    said = left + os.read(ours, _READ)
                except OSError:  # the command's side is closed
                    return
                whole = _whole(said)
                left = said[whole:]
                self._screen.feed(said[:whole].decode())
                continue
            self._keep()
            if until is not None and until():
                child.send_signal(signal.SIGINT)
                until = None
        shown = "\n".join("  ".join(span.text for span in row) for row in self._screen.rows())
        raise TimeoutError(f"it took longer than {_PATIENCE:.0f} s:\n{shown}")

    def _keep(self) -> None:
        """The screen, if it is another one than before."""
        frame = Frame(time.monotonic() - self._began, self._screen.rows(), self.title)
        if not self.frames or self.frames[-1][1:3] != frame[1:3]:
            self.frames.append(frame)


def _whole(said: bytes) -> int:
    """Up to where no character and no escape sequence is cut off."""
    at = max(said.rfind(b"\x1b"), 0)
    if said[at : at + 1] == b"\x1b" and not re.match(rb"\x1b\[[0-9;?]*[A-Za-z]", said[at:]):
        return at
    for back in range(1, min(4, len(said)) + 1):
        byte = said[-back]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(said) if back >= length else len(said) - back
        if byte < 0x80:
            break
    return len(said)
