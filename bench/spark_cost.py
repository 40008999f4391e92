"""What a load costs in processor time and memory: Spark's driver, its JVM, and Python's workers.

Workers come and go while a load goes on, and take their peaks with them: memory is looked at ten
times in three seconds. What an ended one spent its parent has been told; the sum over the tree
loses nothing.
"""

import contextlib
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench.processes import reset_peak, tree

_EVERY: Final = 0.3
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_GONE: Final = (FileNotFoundError, ProcessLookupError)


@dataclass(slots=True)
class Peaks:
    """Bytes."""

    jvm: int = 0
    workers: int = 0  # of all that were there at one time
    worker: int = 0  # of the largest
    everything: int = 0  # the driver's Python with it


def cpu_seconds_with_ended(pid: int) -> float:
    """Of a process, its descendants, and those of them that have ended."""
    total = 0
    for each in tree(pid):
        with contextlib.suppress(*_GONE):
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            total += sum(int(field) for field in fields[11:15])
    return total / _TICKS


class SparkCost:
    """Of a driver and all below it, inside a `with` block."""

    def __init__(self, driver: int) -> None:
        self._driver = driver
        self._over = threading.Event()
        self._watching = threading.Thread(target=self._watch, name="peaks")
        self.cpu_seconds = 0.0
        self.peaks = Peaks()

    def _watch(self) -> None:
        while not self._over.wait(_EVERY):
            self._look()

    def _look(self) -> None:
        """Takes every process for as large as it has been since the beginning.

        What the JVM starts is for a moment as large as the JVM, with whose memory it begins, and
        called like the thread that started it: only what has a name of its own is looked at.
        """
        jvm = workers = driver = 0
        for each in tree(self._driver):
            with contextlib.suppress(*_GONE):
                name, peak = _name_and_peak(each)
                if each == self._driver:
                    driver = peak
                elif name == "java":
                    jvm = max(jvm, peak)
                elif name.startswith("python"):
                    workers += peak
                    self.peaks.worker = max(self.peaks.worker, peak)
        self.peaks.jvm = max(self.peaks.jvm, jvm)
        self.peaks.workers = max(self.peaks.workers, workers)
        self.peaks.everything = max(self.peaks.everything, driver + jvm + workers)

    def __enter__(self) -> Self:
        reset_peak(self._driver)
        self.cpu_seconds = -cpu_seconds_with_ended(self._driver)
        self._watching.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._watching.join()
        if error is None:
            self._look()
            self.cpu_seconds += cpu_seconds_with_ended(self._driver)


def _name_and_peak(pid: int) -> tuple[str, int]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines)
    kilobytes = values.get("VmHWM", "0").split()[0]  # a process that is ending has none
    return values["Name"].strip(), int(kilobytes) * 1024
