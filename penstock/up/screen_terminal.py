"""The screen of `penstock up` on a terminal.

It uses the alternate screen, so that the main one is unchanged at the end. Each picture overwrites
the last one from the top; the screen is not cleared first, as that would flicker. Typed characters
and remains of another size vanish with the next picture.

Ctrl-Z restores the terminal before the process stops; in the background nothing is drawn. When the
terminal has gone, drawing ends, but not the pipeline.
"""

import os
import select
import signal
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, Final, TextIO

import msgspec
from rich.console import Console
from rich.text import Text

from penstock.cli.output import give_up
from penstock.directory.locks import ADMIN, Locks
from penstock.directory.places import Addresses, Places
from penstock.status.collector import EVERY_SECONDS
from penstock.status.loader_log import load_at_work
from penstock.status.values import PipelineStatus, Rates
from penstock.status.words import shown
from penstock.up.programs import ProgramPhase, ProgramStatus
from penstock.up.screen_picture import ScreenState, all_run, picture

_USUAL_SIZE: Final = (80, 24)  # for a terminal that reports 0, such as a serial line
_UNTIL_IT_RUNS_S: Final = 2.0  # a loader may log before it counts as running
_ENTER: Final = "\x1b[?1049h\x1b[?25l"  # alternate screen, no cursor
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_TOP: Final = "\x1b[H"
_END_OF_LINE: Final = "\x1b[K"
_END_OF_SCREEN: Final = "\x1b[J"


class _Note(msgspec.Struct):
    """A note. It stays until new lines of the topic `until` arrive; permanently if `until` is
    empty."""

    text: str
    until: str
    begin: int | None = None  # the topic's end when it was first seen

    def is_over(self, ends: Mapping[str, int]) -> bool:
        end = ends.get(self.until, 0)
        if self.begin is None:
            self.begin = end
        return bool(self.until) and end > self.begin


class TerminalScreen:
    """Draws the screen every second, and at once when a program has changed. For the main
    thread."""

    asks_every: float = EVERY_SECONDS

    def __init__(self, stream: TextIO, places: Places, addresses: Addresses) -> None:
        self._stream = stream
        self._places = places
        self._addresses = addresses
        wants_login = addresses.page_wants_login
        self._password = Locks.of(places).password(ADMIN) if wants_login else None
        self._here = Path.cwd()
        self._console = Console(file=stream, highlight=False)
        self._rates = Rates()
        self._notes: list[_Note] = []
        self._programs: Sequence[ProgramStatus] = ()
        self._status: PipelineStatus | None = None
        self._drawn_at = float("-inf")
        self._open = False
        self._gone = False
        self._must_suspend = False
        self._on_ctrl_z: Any = signal.getsignal(signal.SIGTSTP)
        if self._on_ctrl_z is not signal.SIG_IGN:
            signal.signal(signal.SIGTSTP, self._take_ctrl_z)

    def show(self, programs: Sequence[ProgramStatus], status: PipelineStatus | None) -> None:
        has_changed = programs != self._programs
        self._programs = programs
        if status is not None and (status.brokers or all_run(programs)):
            # While the brokers are away, what was last known of topics stays.
            self._status = status
            self._rates.add(status)
            if status.brokers:
                ends = {topic.topic: topic.end for topic in status.topics}
                self._notes = [note for note in self._notes if not note.is_over(ends)]
        if self._must_suspend:
            self._suspend()
        if has_changed or time.monotonic() - self._drawn_at >= EVERY_SECONDS:
            self._draw()

    def note(self, text: str, *, until: str = "") -> None:
        self._notes.append(_Note(f"{datetime.now(UTC):%H:%M:%S}Z  {shown(text)}", until))
        self._draw()

    def close(self) -> None:
        signal.signal(signal.SIGTSTP, self._on_ctrl_z)
        self._leave("".join(f"{note.text}\n" for note in self._notes))
        self._notes.clear()

    def _draw(self) -> None:
        self._drawn_at = time.monotonic()
        try:
            if self._is_ours():
                columns, lines = os.get_terminal_size(self._stream.fileno())
                self._write(self._drawn(columns or _USUAL_SIZE[0], lines or _USUAL_SIZE[1]))
        except OSError:
            self._give_up()

    def _is_ours(self) -> bool:
        """Whether drawing is possible now."""
        if self._gone or not select.select([], [self._stream], [], 0)[1]:
            return False  # stopped with Ctrl-S, for which programs must not wait
        try:
            return os.tcgetpgrp(self._stream.fileno()) == os.getpgrp()
        except OSError:  # not the controlling terminal, so there is no background
            return True

    def _drawn(self, columns: int, lines: int) -> str:
        state = ScreenState(
            programs=self._programs,
            status=self._status,
            rates=self._rates,
            notes=[note.text for note in self._notes],
            directory=self._places.directory,
            here=self._here,
            dashboard=self._addresses.audit,
            password=self._password,
            loads=self._loads(),
            elsewhere=self._addresses != Addresses(),
            follows=any(self._places.inputs.glob("*.yaml")),
            now=time.time(),
        )
        frame = f"{_END_OF_LINE}\r\n".join(
            # Not the last column: what ends a line would take away what stands there.
            self._coded(line)
            for line in picture(state, columns - 1, lines)
        )
        prefix = "" if self._open else _ENTER
        self._open = True
        return f"{prefix}{_TOP}{frame}{_END_OF_LINE}{_END_OF_SCREEN}"

    def _loads(self) -> str:
        for program in self._programs:
            if program.name == "loader" and program.phase is ProgramPhase.RUNNING:
                return load_at_work(Path(program.log), program.since - _UNTIL_IT_RUNS_S)
        return ""

    def _coded(self, line: Text) -> str:
        with self._console.capture() as capture:
            self._console.print(line, end="", soft_wrap=True)
        return capture.get()

    def _take_ctrl_z(self, _: int, __: FrameType | None) -> None:
        """Only set a flag, as a picture may be half written."""
        self._must_suspend = True

    def _suspend(self) -> None:
        """Stop, as the shell expects after Ctrl-Z; returns after `fg` or `bg`."""
        self._must_suspend = False
        self._leave("")
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._take_ctrl_z)

    def _leave(self, last_words: str) -> None:
        output = f"{_LEAVE}{last_words}" if self._open else last_words
        self._open = False
        if output and not self._gone:
            try:
                self._write(output)
            except OSError:
                self._give_up()

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def _give_up(self) -> None:
        self._gone = True
        give_up(self._stream)
