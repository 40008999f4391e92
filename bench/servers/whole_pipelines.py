"""A complete idle pipeline: `penstock up` and everything that it starts.

Its output goes to a file, and it runs without Hypothesis, which kio would import if it were
installed.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.figures.plain_python import without_hypothesis
from bench.figures.processes import tree
from ground.network import listening
from harness.processes.server_process import ServerProcess, free_ports
from harness.processes.waiting import wait_until
from penstock.directory.places import Ports

_PATIENCE = 180.0
_JAVA = "java"


class WholePipeline(msgspec.Struct):
    """A running pipeline."""

    name: str
    process: ServerProcess

    def last_words(self, lines: int) -> str:
        return self.process.last_words(lines)

    @property
    def programs(self) -> dict[str, list[int]]:
        """The process IDs by program, including `up` itself."""
        pids: dict[str, list[int]] = {}
        for pid in tree(self.process.pid):
            pids.setdefault(_program(pid), []).append(pid)
        return pids


def _program(pid: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    if Path(words[0]).name == _JAVA:
        return "JVM"
    if "broker.counting.process" in words:
        return "broker"
    return words[words.index("penstock") + 1]


@contextlib.contextmanager
def whole_pipeline(directory: Path) -> Iterator[WholePipeline]:
    data = directory / "data"
    base = _ports()
    command = [sys.executable, "-m", "penstock", "up", "--dir", str(data), "--port-base", str(base)]
    output = directory / "up.txt"
    process = ServerProcess(
        command, output=output, environment={"PYTHONPATH": str(without_hypothesis(directory))}
    )
    with process:
        process.spawn()
        wait_until(
            lambda: "all programs run" in output.read_text(), within=_PATIENCE, what="a pipeline"
        )
        yield WholePipeline("Penstock", process)
        process.terminate()


def _ports() -> int:
    """The first of as many free ports in a row as `up` needs."""
    while True:
        (first,) = free_ports(1)
        if all(listening.is_free("127.0.0.1", port) for port in Ports.beginning_at(first)):
            return first
