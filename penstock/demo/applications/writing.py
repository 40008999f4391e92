"""The loop of a sample application: events at a changing pace, until it is told to stop.

SIGTERM ends it after the event that is being written; then its tally is there. Killed in another
way it leaves none.
"""

import random
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Final, NamedTuple

from penstock.demo.applications.rotated_log import RotatedLog, Rotation
from penstock.demo.applications.tally import Tally, keep

TALLY: Final = "tally.json"  # in the application's directory, beside its logs
_TURN_SECONDS: Final = 0.05
_LONGEST_TURN: Final = 1.0  # on a busy machine: what was not written by then is not made up for


class Application(NamedTuple):
    """One application, as far as it differs from another."""

    name: str
    rotation: Rotation
    most_bytes: int  # after which its file is rotated
    pace: Callable[[float], float]  # events a second, by the seconds since it began
    event: Callable[[int, datetime, random.Random], str]  # by its number: whole lines


def write(application: Application, directory: Path, stop: Event) -> Tally:
    """Writes into the directory until `stop` is set; what was written."""
    chance = random.Random(application.name)  # noqa: S311  # the same in each demonstration
    log = RotatedLog(directory, application.rotation, application.most_bytes)
    began = now = time.monotonic()
    events = lines = 0
    owed = 1.0
    while not stop.is_set():
        at = datetime.now(UTC)
        numbers = range(events, events + int(owed))
        text = "".join(application.event(number, at, chance) for number in numbers)
        log.write(text)
        events += len(numbers)
        lines += text.count("\n")
        stop.wait(_TURN_SECONDS)
        before, now = now, time.monotonic()
        took = min(now - before, _LONGEST_TURN)
        owed += application.pace(now - began) * took - len(numbers)
    log.close()
    return Tally(application=application.name, lines=lines, events=events, files=log.files)


def main(application: Application) -> None:
    """`python -m penstock.demo.applications.NAME DIRECTORY`."""
    stop = Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    keep(write(application, directory, stop), directory / TALLY)
