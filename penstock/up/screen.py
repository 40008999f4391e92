"""The output of `penstock up`: a screen on a terminal, lines elsewhere.

There is a line for each event, and one with figures each minute. After a death, the end of the
program's log follows in indented lines. When a line cannot be written, as the disk is full or the
reader has gone, output ends, but not the pipeline.
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
_PLAIN_ASKS_S: Final = 3.0  # less often than for a screen
_SETTLES_S: Final = 10.0  # from a program's start until a status must know of it

_SILENT: Final = re.compile(r"no (?:broker|registry|agent|audit) at ")


class PlainScreen:
    """Prints lines of text: the differences from the previous state."""

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
                f"all programs run: dashboard {self._addresses.audit}, data in "
                f"{shown(str(self._places.directory))}"
            )
            if self._addresses.page_wants_login:
                locks = Locks.of(self._places)
                password, ca = (shown(str(path)) for path in (locks.password(ADMIN), locks.ca))
                self._say(
                    f"log in there as {ADMIN}, with the password in {password}; for the browser to "
                    f"trust the page, import {ca}"
                )
            if self._addresses != Addresses():
                environment = shlex.quote(str(self._places.environment))
                self._say(f"for commands in a shell: . {shown(environment)}")
        if status is not None:
            self._figures(status)

    def note(self, text: str, *, until: str = "") -> None:
        self._say(shown(text))

    def close(self) -> None:
        """Does nothing, as there is no terminal to restore."""

    def _figures(self, status: PipelineStatus) -> None:
        self._rates.add(status)
        was_faulty, self._faulty = self._faulty, status.verdict in FAULTY
        self._tell_failing(status)
        self._tell_silent(status)
        now = self._clock()
        if now >= self._figures_at or (self._faulty and not was_faulty):
            self._figures_at = now + _FIGURES_S
            self._say(_figures(status, self._rates))

    def _tell_silent(self, status: PipelineStatus) -> None:
        """Report a server once when it stops answering, as a program that hangs has not ended."""
        silences = set(filter(self._is_silence, status.problems)) if self._all_ran else set()
        for name in sorted(silences - self._silent):
            self._say(shown(name))
        self._silent = silences

    def _is_silence(self, problem: str) -> bool:
        """Whether a server does not answer. The status may be older than a program that has just
        been started."""
        last_start = max(program.since for program in self._before.values())
        return bool(_SILENT.match(problem)) and self._clock() - last_start > _SETTLES_S

    def _tell_failing(self, status: PipelineStatus) -> None:
        """Report loads that begin to fail, and those that succeed again."""
        failing_topics = {failing_load.topic for failing_load in status.failing_loads}
        if failing_topics - self._failing:
            self._say("; ".join(line.text for line in failing_words(status)))
        for table in sorted(self._failing - failing_topics):
            self._say(f"{shown(table)} is loaded again" if table else "loads start again")
        self._failing = failing_topics

    def _say(self, text: str) -> None:
        moment = datetime.fromtimestamp(self._clock(), UTC)
        try:
            self._stream.write(f"{moment:%Y-%m-%dT%H:%M:%SZ} {text}\n")
            self._stream.flush()
        except OSError:
            give_up(self._stream)


def _event(before: ProgramStatus | None, status: ProgramStatus) -> str:
    """The event in words; empty if there was none."""
    if before is not None and (before.phase, before.since) == (status.phase, status.since):
        return ""
    match status.phase:
        case ProgramPhase.WAITING:
            return ""
        case ProgramPhase.STARTING:
            return f"{status.name} starts"
        case ProgramPhase.RUNNING:
            address = f" at {status.address}" if status.address else ""
            delay = f" after {duration(status.since - before.since)}" if before else ""
            return f"{status.name} runs{address}{delay}"
        case ProgramPhase.DEAD:
            log_end = "; the end of its log:" if status.last_lines else ""
            seconds = status.retry_at - status.since
            retry = f"in {pause(seconds)}" if seconds > _AT_ONCE else "at once"
            text = (
                f"{status.name} died: {shown(status.ended)}; it is started again {retry}{log_end}"
            )
            return "\n    ".join([text, *(shown(line) for line in status.last_lines)])
        case ProgramPhase.STOPPING:
            return f"{status.name} stops"
        case ProgramPhase.STOPPED:
            return f"{status.name} has stopped"


def _figures(status: PipelineStatus, rates: Rates) -> str:
    topics = status.topics
    parts = [
        verdict_words(status).text,
        *(line.text for line in failing_words(status)),
        "1 topic" if len(topics) == 1 else f"{len(topics):,} topics",
        f"{rate(sum(max(0.0, rates.of(topic.topic)) for topic in topics))} events/s",
        f"{size(sum(max(0, topic.unread_bytes) for topic in topics))} not read",
        *([load_words(status.last_load, status.now)] if status.alerts >= 0 else []),
        *(shown(problem) for problem in status.problems),
    ]
    return "; ".join(parts)


class Screen(Protocol):
    """Shows the state of a pipeline. `show` may be called at any rate, and itself decides what is
    new."""

    asks_every: float  # seconds between two statuses

    def show(self, programs: Sequence[ProgramStatus], status: PipelineStatus | None) -> None: ...

    def note(self, text: str, *, until: str = "") -> None:
        """Shows a line permanently, or with `until` only until lines of that topic have arrived."""

    def close(self) -> None:
        """Restores the terminal, and leaves the notes on it. May be called twice."""


def screen_for(stream: TextIO, places: Places, addresses: Addresses) -> Screen:
    """Returns a screen if the stream is a terminal; otherwise an output with one line per event."""
    if not stream.isatty() or os.environ.get("TERM", "") in {"", "dumb"}:
        return PlainScreen(stream, places, addresses)
    # Only a terminal waits for rich to be imported.
    from penstock.up.screen_terminal import TerminalScreen  # noqa: PLC0415

    return TerminalScreen(stream, places, addresses)
