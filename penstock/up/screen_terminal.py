"""The screen of `penstock up` on a terminal.

It is the terminal's other screen, so that the first one is as it was when this ends. Each picture
is written over the last one, from the top, without clearing anything before: that would flicker.
What is typed meanwhile, or a new size, is gone with the next picture.
"""

import os
import select
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, TextIO

from rich.console import Console
from rich.text import Text

from penstock.standing.rates import Rates
from penstock.standing.values import Standing
from penstock.standing.words import shown
from penstock.up.places import Addresses, Places
from penstock.up.program_standing import ProgramStanding
from penstock.up.screen_picture import Seen, all_run, picture

_EVERY_S: Final = 0.5
_ENTER: Final = "\x1b[?1049h\x1b[?25l"  # the other screen, no cursor
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_TOP: Final = "\x1b[H"
_END_OF_LINE: Final = "\x1b[K"
_END_OF_SCREEN: Final = "\x1b[J"


class TerminalScreen:
    """Draws twice a second, and at once when a program has changed."""

    def __init__(self, stream: TextIO, places: Places, addresses: Addresses) -> None:
        self._stream = stream
        self._places = places
        self._addresses = addresses
        self._here = Path.cwd()
        self._console = Console(file=stream, highlight=False)
        self._rates = Rates()
        self._notes: list[str] = []
        self._programs: Sequence[ProgramStanding] = ()
        self._standing: Standing | None = None
        self._drawn_at = float("-inf")
        self._open = False

    def show(self, programs: Sequence[ProgramStanding], standing: Standing | None) -> None:
        changed = programs != self._programs
        self._programs = programs
        if standing is not None and (standing.brokers or all_run(programs)):
            # While the brokers are away, what was last known of topics stays.
            self._standing = standing
            self._rates.add(standing)
        if changed or time.monotonic() - self._drawn_at >= _EVERY_S:
            self._draw()

    def note(self, text: str) -> None:
        self._notes.append(f"{datetime.now():%H:%M:%S}  {shown(text)}")
        self._draw()

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        self._stream.write(_LEAVE + "".join(f"{each}\n" for each in self._notes))
        self._stream.flush()

    def _draw(self) -> None:
        if not select.select([], [self._stream], [], 0)[1]:
            return  # somebody has stopped it with Ctrl-S: the programs do not wait for that
        self._drawn_at = time.monotonic()
        columns, lines = os.get_terminal_size(self._stream.fileno())
        seen = Seen(
            programs=self._programs,
            standing=self._standing,
            rates=self._rates,
            notes=self._notes,
            directory=self._places.directory,
            here=self._here,
            dashboard=self._addresses.audit,
            now=time.time(),
        )
        drawn = f"{_END_OF_LINE}\r\n".join(
            # Not the last column: what ends a line would take away what stands there.
            self._coded(each)
            for each in picture(seen, columns - 1, lines)
        )
        entered = "" if self._open else _ENTER
        self._open = True
        self._stream.write(f"{entered}{_TOP}{drawn}{_END_OF_LINE}{_END_OF_SCREEN}")
        self._stream.flush()

    def _coded(self, line: Text) -> str:
        with self._console.capture() as captured:
            self._console.print(line, end="", soft_wrap=True)
        return captured.get()
