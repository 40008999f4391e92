"""A `penstock up` that is started, watched by what it says, and killed."""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import pyarrow.dataset
import pytest

from ground.network import listening
from harness.hadoop.spark_jvm import quick_java_environment
from harness.processes.server_process import free_ports
from harness.processes.waiting import wait_until
from penstock.directory.places import MirrorPorts, Ports
from penstock.status.collector import StatusCollector
from penstock.status.values import PipelineStatus, TopicStatus
from tests.penstock.running import INTERPRETER, REPOSITORY

ALL = ("zookeeper", "broker", "registry", "agent", "loader", "audit")
WITH_MIRROR = (*ALL, "mirror", "offline-broker", "offline-registry")
PATIENCE = 240.0


def free_base() -> int:
    """The first of so many free ports in a row."""
    while True:
        (first,) = free_ports(1)
        every = [*Ports.beginning_at(first), *MirrorPorts.beginning_at(first)]
        if all(listening.is_free("127.0.0.1", port) for port in every):
            return first


class Up:
    """One `penstock up`; killed at the end if it still runs then."""

    def __init__(
        self, output: Path, *arguments: str, directory: Path = REPOSITORY, **environment: str
    ) -> None:
        self._output = output
        given = {"PYTHONPATH": str(REPOSITORY), **quick_java_environment(), **environment}
        with output.open("wb") as file:
            self.process = subprocess.Popen(
                [*INTERPRETER, "-m", "penstock", "up", *arguments],
                cwd=directory,
                env={**os.environ, **given},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )

    def said(self) -> str:
        return self._output.read_text(errors="replace")

    def times(self, line: str) -> int:
        return len(re.findall(rf" {line}\b", self.said()))

    def until(self, line: str, times: int = 1) -> None:
        wait_until(
            lambda: self._running() and self.times(line) >= times,
            within=PATIENCE,
            what=f"{line}, in {self._output}",
        )

    def programs(self) -> dict[str, int]:
        """Those that run, by the name of their log file."""
        found: dict[str, int] = {}
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for pid in map(int, children.read_text().split()):
            log = Path(f"/proc/{pid}/fd/2").readlink()
            found[log.stem] = pid
        return found

    def kill(self, names: Iterable[str]) -> None:
        """SIGKILL, and they come back."""
        before = {name: self.times(f"{name} runs") for name in names}
        programs = self.programs()
        for name in before:
            os.kill(programs[name], signal.SIGKILL)
        for name, times in before.items():
            self.until(f"{name} died: killed by SIGKILL")
            self.until(f"{name} runs", times + 1)

    def replace(self, name: str, meanwhile: Callable[[], None]) -> None:
        """Frozen, then killed: what is done meanwhile it never sees."""
        times, pid = self.times(f"{name} runs"), self.programs()[name]
        os.kill(pid, signal.SIGSTOP)
        meanwhile()
        os.kill(pid, signal.SIGKILL)
        self.until(f"{name} runs", times + 1)

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def wait(self) -> int:
        return self.process.wait(PATIENCE)

    def stop(self) -> None:
        """By Ctrl-C, in order."""
        self.interrupt()
        assert self.wait() == 0, self.said()

    def _running(self) -> bool:
        assert self.process.poll() is None, f"{self.process.returncode}: {self.said()}"
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


class WrittenLog:
    """A file of lines, and all that were ever written into it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[str] = []

    def write(self, count: int, to: Path | None = None) -> None:
        new = [f"line {len(self.lines) + number}" for number in range(count)]
        with (to or self.path).open("a") as file:
            file.writelines(f"{line}\n" for line in new)
        self.lines.extend(new)

    def are_stored(self, topic: TopicStatus) -> bool:
        return topic.stored == len(self.lines)

    def are_landed(self, topic: TopicStatus) -> bool:
        return topic.landed == len(self.lines)

    def assert_landed_once(self, table: Path) -> None:
        landed: Sequence[Any] = pyarrow.dataset.dataset(table).to_table(["message"]).to_pylist()
        assert sorted(each["message"] for each in landed) == sorted(self.lines)


def family(pid: int) -> set[int]:
    """A process and all that it has started, and they."""
    try:
        children = Path(f"/proc/{pid}/task").glob("*/children")
        below = [int(each) for path in children for each in path.read_text().split()]
    except OSError:
        below = []
    return {pid}.union(*map(family, below))


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_until_gone(pids: Iterable[int]) -> None:
    wait_until(lambda: not any(map(is_alive, pids)), within=PATIENCE, what="nothing is left")


def wait_until_status(
    collector: StatusCollector,
    holds: Callable[[TopicStatus], bool],
    *,
    verdict: str = "",
    topic: str = "web",
) -> None:
    """Until all answer, and this holds for the topic, and the verdict is that one."""

    def is_so() -> bool:
        nonlocal seen
        seen = collector.ask()
        web = [each for each in seen.topics if each.topic == topic]
        return bool(web) and holds(web[0]) and verdict in {"", seen.verdict}

    seen = PipelineStatus(now=0)
    try:
        wait_until(is_so, within=PATIENCE, what="the pipeline stands as it should")
    except TimeoutError:
        pytest.fail(f"it never stood as it should: {seen}")
