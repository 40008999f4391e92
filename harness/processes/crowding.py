"""The load of the machine, by which deadlines are extended.

Deadlines in tests only end what would never happen. On a machine where ten processes want the same
processor everything takes ten times as long, so a second counts as a tenth of one.

    Crowding    the recent load
    Patience    a duration as it would be on an idle machine
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

_STAT: Final = Path("/proc/stat")
_FORGETS_SECONDS: Final = 2.0


def wanting() -> int:
    """Counts other threads on the whole machine that are running, could run, or wait for a disk."""
    rows = (line.split() for line in _STAT.read_bytes().splitlines()[-8:])
    values = {row[0]: int(row[1]) for row in rows}
    return max(0, values[b"procs_running"] - 1) + values[b"procs_blocked"]


class Crowding:
    """The mean load per processor over the last seconds, since a single sample says little."""

    def __init__(
        self,
        wants: Callable[[], int] = wanting,
        clock: Callable[[], float] = time.monotonic,
        processors: int = os.cpu_count() or 1,
    ) -> None:
        self._wants = wants
        self._clock = clock
        self._processors = processors
        self._looked = clock()
        self.mean = wants() / self._processors

    def look(self) -> float:
        now = self._clock()
        weight = min(1.0, (now - self._looked) / _FORGETS_SECONDS)
        self._looked = now
        self.mean += weight * (self._wants() / self._processors - self.mean)
        return self.mean


class Patience:
    """A time limit for an idle machine. On a loaded machine time passes more slowly, in proportion
    to the load."""

    def __init__(
        self,
        seconds: float,
        *,
        crowding: Crowding | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds = seconds
        self._crowding = crowding or Crowding()
        self._clock = clock
        self._looked = clock()
        self._lasted = 0.0

    def is_over(self) -> bool:
        now = self._clock()
        self._lasted += (now - self._looked) / max(1.0, self._crowding.look())
        self._looked = now
        return self._lasted > self.seconds
