"""A Spark driver as a child process that runs several loads, and the cost of a load.

Processor time and memory include the driver, its JVM and the Python workers. Workers may end during
a load, and take their peaks with them, so memory is sampled every 0.3 s. The processor time of
ended processes is in their parents' counters.
"""

import contextlib
import json
import os
import select
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

import msgspec

from bench.figures.processes import cpu_seconds_with_ended, reset_peak, tree
from bench.spark.driver_commands import Json
from harness.processes.server_process import ServerFailed

REPOSITORY = Path(__file__).resolve().parents[2]
_PATIENCE = 1800.0
_PATIENCE_AT_END = 60.0


class SparkDriver:
    """A driver: `with SparkDriver(command, output=file) as driver: driver.ask("load", …)`."""

    def __init__(
        self, command: Sequence[str], *, output: Path, environment: Mapping[str, str]
    ) -> None:
        self._command = list(command)
        self._output = output
        self._environment = dict(environment)
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._child is not None, "never started"
        return self._child.pid

    def last_words(self, lines: int) -> str:
        if not self._output.exists():
            return ""
        return "\n".join(self._output.read_text(errors="replace").splitlines()[-lines:])

    def ask(self, name: str, arguments: Json, *, within: float = _PATIENCE) -> Json:
        """Runs a command; returns its answer. Raises ServerFailed."""
        commands, answers = self._pipes()
        try:
            commands.write(json.dumps([name, arguments]).encode() + b"\n")
            commands.flush()
        except BrokenPipeError:
            raise ServerFailed("the driver ended") from None
        if not select.select([answers], [], [], within)[0]:
            raise ServerFailed(f"{name}: no answer within {within:g} s")
        line = answers.readline()
        if not line:
            raise ServerFailed(f"{name}: the driver ended")
        answer: Json = json.loads(line)
        if "error" in answer:
            raise ServerFailed(f"{name}: {answer['error']}")
        return answer

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self._child is not None, "never started"
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        return self._child.stdin, self._child.stdout

    def __enter__(self) -> Self:
        with self._output.open("ab") as output:
            self._child = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                cwd=REPOSITORY,
                env={**os.environ, **self._environment},
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The driver and its JVM end when its stdin closes."""
        assert self._child is not None
        for pipe in self._pipes():
            with contextlib.suppress(BrokenPipeError):  # the driver ended
                pipe.close()
        try:
            self._child.wait(_PATIENCE_AT_END)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


_EVERY: Final = 0.3
_GONE: Final = (FileNotFoundError, ProcessLookupError)


class Peaks(msgspec.Struct):
    """Peak sizes in bytes."""

    jvm: int = 0
    workers: int = 0  # all concurrent ones
    worker: int = 0  # the largest
    everything: int = 0  # including the driver's Python


class SparkCost:
    """The cost of a driver and its descendants inside a `with` block."""

    def __init__(self, driver: int) -> None:
        self._driver = driver
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="peaks")
        self.cpu_seconds = 0.0
        self.peaks = Peaks()

    def _watch(self) -> None:
        while not self._ended.wait(_EVERY):
            self._sample()

    def _sample(self) -> None:
        """Update the peaks with the largest size of every process so far.

        A process that the JVM forks starts with the JVM's memory and the name of its thread, so
        only processes with names of their own count.
        """
        jvm = workers = driver = 0
        for pid in tree(self._driver):
            with contextlib.suppress(*_GONE):
                name, peak = _name_and_peak(pid)
                if pid == self._driver:
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
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        if error is None:
            self._sample()
            self.cpu_seconds += cpu_seconds_with_ended(self._driver)


def _name_and_peak(pid: int) -> tuple[str, int]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines)
    kilobytes = values.get("VmHWM", "0").split()[0]  # missing while a process ends
    return values["Name"].strip(), int(kilobytes) * 1024
