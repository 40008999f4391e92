"""What `penstock up` shows: a screen on a terminal, lines elsewhere.

Those are one for each event, and one a minute with figures. What a program's log ended with, when
it died, follows on lines that are indented. Once a line cannot be written, as the disk is full or
the reader has gone, no more are: a pipeline does not end for that.
"""

import os
import re
import shlex
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final, Protocol, TextIO

from penstock.cli.output import give_up
from penstock.directory.locks import ADMIN, Locks
from penstock.directory.places import Addresses, Places
from penstock.status.values import PipelineStatus, Rates
from penstock.status.words import (
    FAULTY,
    duration,
    failing_words,
    load_words,
    pause,
    rate,
    shown,
    size,
    verdict_words,
)
from penstock.up.programs import ProgramPhase, ProgramStatus

_FIGURES_S: Final = 60.0
_AT_ONCE: Final = 0.05
_PLAIN_ASKS_S: Final = 3.0  # nobody looks at it all the time


_SILENT: Final = re.compile(r"no (broker|registry|agent|audit) at ")


class PlainScreen:
    """Events are told from what was shown before."""

    asks_every: float = _PLAIN_ASKS_S

    def __init__(
        self,
        stream: TextIO,
        places: Places,
        addresses: Addresses,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._stream = stream
        self._places = places
        self._addresses = addresses
        self._clock = clock
        self._before: dict[str, ProgramStatus] = {}
        self._rates = Rates()
        self._figures_at = clock() + _FIGURES_S
        self._all_ran = False
        self._faulty = False
        self._failing: set[str] = set()  # tables
        self._silent: set[str] = set()  # lines about servers that do not answer

    def show(self, programs: Sequence[ProgramStatus], status: PipelineStatus | None) -> None:
        for program in programs:
            if event := _event(self._before.get(program.name), program):
                self._say(event)
            self._before[program.name] = program
        if not self._all_ran and all(program.phase is ProgramPhase.RUNNING for program in programs):
            self._all_ran = True
            self._say(
                f"everything runs: dashboard {self._addresses.audit}, data in "
                f"{shown(str(self._places.directory))}"
            )
            if self._addresses.page_wants_login:
                locks = Locks.of(self._places)
                password, ca = (shown(str(path)) for path in (locks.password(ADMIN), locks.ca))
                self._say(
                    f"log in there as {ADMIN}, with the password in {password}; a browser believes "
                    f"the page once it knows {ca}"
                )
            if self._addresses != Addresses():
                environment = shlex.quote(str(self._places.environment))
                self._say(f"for commands in a shell: . {shown(environment)}")
        if status is not None:
            self._figures(status)

    def note(self, text: str, *, until: str = "") -> None:
        self._say(shown(text))

    def close(self) -> None:
        """Nothing was changed that must be changed back."""

    def _figures(self, status: PipelineStatus) -> None:
        self._rates.add(status)
        was, self._faulty = self._faulty, status.verdict in FAULTY
        self._tell_failing(status)
        self._tell_silent(status)
        now = self._clock()
        if now >= self._figures_at or (self._faulty and not was):
            self._figures_at = now + _FIGURES_S
            self._say(_figures(status, self._rates))

    def _tell_silent(self, status: PipelineStatus) -> None:
        """Once, when a server that ran no longer answers: a program that hangs has not ended."""
        silent = set(filter(_SILENT.match, status.problems)) if self._all_ran else set()
        for name in sorted(silent - self._silent):
            self._say(shown(name))
        self._silent = silent

    def _tell_failing(self, status: PipelineStatus) -> None:
        """Once when it begins, and once when it is over; with the figures again and again."""
        failing = {failing_load.topic for failing_load in status.failing_loads}
        if failing - self._failing:
            self._say("; ".join(failing_word.text for failing_word in failing_words(status)))
        for table in sorted(self._failing - failing):
            self._say(f"{shown(table)} is loaded again" if table else "loads begin again")
        self._failing = failing

    def _say(self, text: str) -> None:
        at = datetime.fromtimestamp(self._clock(), UTC)
        try:
            self._stream.write(f"{at:%Y-%m-%dT%H:%M:%SZ} {text}\n")
            self._stream.flush()
        except OSError:
            give_up(self._stream)


def _event(before: ProgramStatus | None, now: ProgramStatus) -> str:
    """What happened; empty if nothing did."""
    if before is not None and (before.phase, before.since) == (now.phase, now.since):
        return ""
    match now.phase:
        case ProgramPhase.WAITING:
            return ""
        case ProgramPhase.STARTING:
            return f"{now.name} starts"
        case ProgramPhase.RUNNING:
            at = f" at {now.address}" if now.address else ""
            took = f" after {duration(now.since - before.since)}" if before else ""
            return f"{now.name} runs{at}{took}"
        case ProgramPhase.DEAD:
            last = "; the end of its log:" if now.last_lines else ""
            seconds = now.retry_at - now.since
            again = f"in {pause(seconds)}" if seconds > _AT_ONCE else "at once"
            died = f"{now.name} died: {shown(now.ended)}; it is started again {again}{last}"
            return "\n    ".join([died, *(shown(last_line) for last_line in now.last_lines)])
        case ProgramPhase.STOPPING:
            return f"{now.name} stops"
        case ProgramPhase.STOPPED:
            return f"{now.name} has stopped"


def _figures(status: PipelineStatus, rates: Rates) -> str:
    topics = status.topics
    parts = [
        verdict_words(status).text,
        *(failing_word.text for failing_word in failing_words(status)),
        "1 topic" if len(topics) == 1 else f"{len(topics):,} topics",
        f"{rate(sum(max(0.0, rates.of(each.topic)) for each in topics))} events/s",
        f"{size(sum(max(0, each.unread_bytes) for each in topics))} not read",
        *([load_words(status.last_load, status.now)] if status.alerts >= 0 else []),
        *(shown(problem) for problem in status.problems),
    ]
    return "; ".join(parts)


class Screen(Protocol):
    """Shows what it is given. Call `show` as often as you like; it decides what is new."""

    asks_every: float  # seconds, of how all are asked what there is to show

    def show(self, programs: Sequence[ProgramStatus], status: PipelineStatus | None) -> None: ...

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
