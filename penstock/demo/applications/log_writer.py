"""The main loop of a sample application: writes events at a changing pace into its log.

SIGTERM ends it after the event that is being written. It then writes its tally: its own count of
what it wrote, with which all arrivals are compared, and which depends on no agent or ledger. The
tally is written once, atomically; an application that was killed leaves none.

The log is rotated when it is long, in one of three ways, none of which loses a byte.

    Shifted    access.log becomes access.log.1, that access.log.2 …: all are renamed, as logrotate
               does. Older ones than the last twenty are deleted, as on any machine
    Numbered   payments.log becomes payments-1.log, the next one payments-2.log, as log4j can do
    NewNames   system-1.log, then system-2.log: nothing is renamed, a new file has a new name

One call writes to one file: rotations take place between calls.
"""

import random
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Final, NamedTuple, Protocol, TextIO

import msgspec

from ground.files.durable_files import replace_file
from ground.known_types import known_type

SHIFTED_FILES: Final = 20  # number of old files kept
TALLY: Final = "tally.json"  # in the application's directory, beside its logs
_TURN_SECONDS: Final = 0.05
_LONGEST_TURN: Final = 1.0  # longer delays, on a busy machine, are not made up for


class WrittenTally(msgspec.Struct, frozen=True, kw_only=True):
    """An application's count of what it wrote. Events are numbered from 0."""

    application: str
    lines: int
    events: int  # of one line or several
    files: int  # of its log, rotated ones included


def keep(tally: WrittenTally, path: Path) -> None:
    replace_file(path, msgspec.json.encode(tally))


def kept(path: Path) -> WrittenTally:
    """Reads a tally. Raises OSError if there is none or it cannot be read, or
    msgspec.DecodeError."""
    return msgspec.json.decode(path.read_bytes(), type=known_type(WrittenTally))


class Rotation(Protocol):
    """A scheme of rotation. Files are numbered from 1."""

    def current(self, number: int) -> str:
        """Returns the name of a file while it is written to."""

    def give_way(self, directory: Path, number: int) -> None:
        """Makes room for the next file, once the current one is closed."""


class Shifted(msgspec.Struct, frozen=True):
    name: str

    def current(self, number: int) -> str:
        return self.name

    def give_way(self, directory: Path, number: int) -> None:
        def old(age: int) -> Path:
            return directory / (f"{self.name}.{age}" if age else self.name)

        old(SHIFTED_FILES).unlink(missing_ok=True)
        for age in range(min(number, SHIFTED_FILES), 0, -1):
            old(age - 1).rename(old(age))


class Numbered(msgspec.Struct, frozen=True):
    stem: str

    def current(self, number: int) -> str:
        return f"{self.stem}.log"

    def give_way(self, directory: Path, number: int) -> None:
        (directory / self.current(number)).rename(directory / f"{self.stem}-{number}.log")


class NewNames(msgspec.Struct, frozen=True):
    stem: str

    def current(self, number: int) -> str:
        return f"{self.stem}-{number}.log"

    def give_way(self, directory: Path, number: int) -> None:
        """Does nothing, as the next file has another name."""


class RotatedLog:
    """A log file that rotates itself, in a directory that has no file of its name yet."""

    def __init__(self, directory: Path, rotation: Rotation, most_bytes: int) -> None:
        self.files = 1
        self._directory = directory
        self._rotation = rotation
        self._most_bytes = most_bytes
        self._file = self._begun()

    def write(self, text: str) -> None:
        """Writes the text to a single file, and flushes it."""
        if self._file.tell() >= self._most_bytes:
            self._file.close()
            self._rotation.give_way(self._directory, self.files)
            self.files += 1
            self._file = self._begun()
        self._file.write(text)
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _begun(self) -> TextIO:
        path = self._directory / self._rotation.current(self.files)
        return path.open("x", encoding="utf-8", newline="\n")


class Application(NamedTuple):
    """The properties by which one application differs from another."""

    name: str
    rotation: Rotation
    most_bytes: int  # after which its file is rotated
    pace: Callable[[float], float]  # events a second, by the seconds since it began
    event: Callable[[int, datetime, random.Random], str]  # by its number: whole lines


def write(application: Application, directory: Path, stop: Event) -> WrittenTally:
    """Writes into the directory until `stop` is set; returns the tally."""
    rng = random.Random(application.name)  # noqa: S311  # the same in each demonstration
    log = RotatedLog(directory, application.rotation, application.most_bytes)
    start = now = time.monotonic()
    events = lines = 0
    due_events = 1.0
    while not stop.is_set():
        time_now = datetime.now(UTC)
        numbers = range(events, events + int(due_events))
        text = "".join(application.event(number, time_now, rng) for number in numbers)
        log.write(text)
        events += len(numbers)
        lines += text.count("\n")
        stop.wait(_TURN_SECONDS)
        previous, now = now, time.monotonic()
        elapsed = min(now - previous, _LONGEST_TURN)
        due_events += application.pace(now - start) * elapsed - len(numbers)
    log.close()
    return WrittenTally(application=application.name, lines=lines, events=events, files=log.files)


def main(application: Application) -> None:
    """Runs an application: `python -m penstock.demo.applications.NAME DIRECTORY`."""
    stop = Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    keep(write(application, directory, stop), directory / TALLY)
