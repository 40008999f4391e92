"""How many want a processor or a disk: whoever waits for a busy machine waits longer.

Deadlines of tests are there to end what will never come. What takes a second takes ten where ten
want the same processor, so a second counts as a tenth of one there.

    Crowding    how many wanted something lately
    Patience    seconds as a machine would count them that has time for us
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

_STAT: Final = Path("/proc/stat")
_FORGETS_SECONDS: Final = 2.0


def wanting() -> int:
    """Threads that run, could, or wait for a disk, without who asks; all of a machine's, of its
    containers, too."""
    rows = (line.split() for line in _STAT.read_bytes().splitlines()[-8:])
    found = {row[0]: int(row[1]) for row in rows}
    return max(0, found[b"procs_running"] - 1) + found[b"procs_blocked"]


class Crowding:
    """A mean of the last seconds, for each processor: one moment says little."""

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
    """For so many of them. Each look counts the time since the last one, divided by how crowded it
    is."""

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
