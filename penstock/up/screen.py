"""What `penstock up` shows: a screen on a terminal, lines elsewhere."""

import os
from collections.abc import Sequence
from typing import Protocol, TextIO

from penstock.standing.values import Standing
from penstock.up.places import Addresses, Places
from penstock.up.plain import PlainScreen
from penstock.up.program_standing import ProgramStanding


class Screen(Protocol):
    """Shows what it is given. Call `show` as often as you like; it decides what is new."""

    def show(self, programs: Sequence[ProgramStanding], standing: Standing | None) -> None: ...

    def note(self, text: str, *, until: str = "") -> None:
        """A line that stays; with a topic's name, until lines of that topic have come."""

    def close(self) -> None:
        """Leaves the terminal as it was, with the notes on it. May be called twice."""


def watching(stream: TextIO, places: Places, addresses: Addresses) -> Screen:
    """A screen where there is a terminal, otherwise a line for each event."""
    if not stream.isatty() or os.environ.get("TERM", "") in {"", "dumb"}:
        return PlainScreen(stream, places, addresses)
    # Only a terminal waits for rich to be imported.
    from penstock.up.screen_terminal import TerminalScreen  # noqa: PLC0415

    return TerminalScreen(stream, places, addresses)
