"""`penstock up` as a user meets it: a whole pipeline, and what becomes of it."""

import gzip
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow.dataset
import pytest

from ground import listening
from harness.server_process import free_ports, wait_until
from penstock.directory.places import Addresses, Places, Ports
from penstock.status.asking import Asking
from penstock.status.values import PipelineStatus, TopicStanding
from tests.penstock.running import INTERPRETER, REPOSITORY

ALL = ("zookeeper", "broker", "registry", "agent", "loader", "audit")
PATIENCE = 240.0


class Up:
    """One `penstock up`; killed at the end if it still runs then."""

    def __init__(self, output: Path, *arguments: str, **environment: str) -> None:
        self._output = output
        with output.open("wb") as file:
            self.process = subprocess.Popen(
                [*INTERPRETER, "-m", "penstock", "up", *arguments],
                cwd=REPOSITORY,
                env={**os.environ, **environment},
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

    def _running(self) -> bool:
        assert self.process.poll() is None, self.said()
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()


def family(pid: int) -> set[int]:
    """A process and all that it has started, and they."""
    try:
        children = Path(f"/proc/{pid}/task").glob("*/children")
        below = [int(each) for path in children for each in path.read_text().split()]
    except OSError:
        below = []
    return {pid}.union(*map(family, below))


def are_gone(pids: Iterable[int]) -> bool:
    def is_gone(pid: int) -> bool:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        return state == "Z"

    return all(map(is_gone, pids))


@pytest.fixture
def base() -> int:
    """The first of so many free ports in a row."""
    while True:
        (first,) = free_ports(1)
        if all(listening.is_free("127.0.0.1", port) for port in Ports.beginning_at(first)):
            return first


def until_standing(
    asking: Asking, holds: Callable[[TopicStanding], bool], *, verdict: str = ""
) -> None:
    """Until all answer, and this holds for the topic web, and the verdict is that one."""

    def is_so() -> bool:
        nonlocal seen
        seen = asking.ask()
        web = [each for each in seen.topics if each.topic == "web"]
        return bool(web) and holds(web[0]) and verdict in {"", seen.verdict}

    seen = PipelineStatus(now=0)
    try:
        wait_until(is_so, within=PATIENCE, every=0.2, what="the pipeline stands as it should")
    except TimeoutError:
        pytest.fail(f"it never stood as it should: {seen}")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_whole_run(tmp_path: Path, base: int) -> None:
    directory = tmp_path / "my data"
    log, other = tmp_path / "app.log", tmp_path / "other.log"
    lines = iter(range(1_000_000))
    written: list[str] = []

    def write(count: int, to: Path = log) -> None:
        new = [f"line {next(lines)}" for _ in range(count)]
        with to.open("a") as file:
            file.writelines(f"{line}\n" for line in new)
        written.extend(new)

    def rotate_other() -> None:
        """By a name that nobody follows, compressed, and taken away."""
        write(100, other)
        rotated = other.rename(tmp_path / "rotated")
        (tmp_path / "rotated.gz").write_bytes(gzip.compress(rotated.read_bytes()))
        rotated.unlink()
        write(10, other)

    arguments = ("--dir", str(directory))
    follows = ("--follow", f"web={tmp_path}/app.log*", "--follow", f"web={tmp_path}/other.log")
    first = ("--port-base", str(base), *follows)
    with Up(tmp_path / "first.txt", *arguments, *first) as up:
        up.until("everything runs")
        assert sorted(up.programs()) == sorted(ALL)
        up.kill(("loader", "agent", "registry"))
        write(300)
        write(50, other)
        log.rename(tmp_path / "app.log.1")
        write(200)
        up.kill(("zookeeper", "broker", "audit"))
        with Asking(Addresses.of(Ports.beginning_at(base))) as asking:
            until_standing(asking, lambda web: web.stored == len(written))
            up.replace("agent", rotate_other)
            until_standing(asking, lambda web: web.stored == len(written))
        pids = family(up.process.pid)
        up.interrupt()
        assert up.wait() == 0, up.said()
        assert "Everything has stopped. penstock up --dir " in up.said()
        wait_until(lambda: are_gone(pids), within=PATIENCE, what="nothing is left")
    write(100)
    (tmp_path / "app.log").rename(tmp_path / "app.log.2")
    write(50)
    with Up(tmp_path / "second.txt", *arguments) as up:
        up.until("everything runs")
        with Asking(Addresses.of(Ports.beginning_at(base))) as asking:
            # A file was renamed while nothing ran: others may have come and gone.
            until_standing(asking, lambda web: web.landed == len(written), verdict="unknown")
        up.interrupt()
        assert up.wait() == 0, up.said()
    landed = pyarrow.dataset.dataset(Places(directory).warehouse / "web").to_table(["message"])
    assert sorted(landed["message"].to_pylist()) == sorted(written)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("stage", "running"),
    [
        ("zookeeper starts", ["zookeeper"]),
        ("agent starts", ["zookeeper", "agent"]),
        ("audit starts", ["zookeeper", "broker", "registry", "agent"]),
    ],
)
def test_ctrl_c_while_it_starts(tmp_path: Path, base: int, stage: str, running: list[str]) -> None:
    with Up(tmp_path / "said.txt", "--dir", str(tmp_path / "up"), "--port-base", str(base)) as up:
        up.until(stage)
        assert set(running) <= set(up.programs())
        pids = family(up.process.pid)
        up.interrupt()
        assert up.wait() == 0, up.said()
    assert up.times("died") == 0
    wait_until(lambda: are_gone(pids), within=PATIENCE, what="nothing is left")


@pytest.mark.timeout(600)
def test_a_second_ctrl_c_does_not_wait(tmp_path: Path, base: int) -> None:
    with Up(tmp_path / "said.txt", "--dir", str(tmp_path / "up"), "--port-base", str(base)) as up:
        up.until("broker starts")
        pids = family(up.process.pid)
        os.kill(up.programs()["broker"], signal.SIGSTOP)  # so that it cannot end in its own time
        up.interrupt()
        up.process.send_signal(signal.SIGTERM)  # another number: no two of them become one
        assert up.wait() == 0, up.said()
    assert "Everything was killed, as by a crash. " in up.said()
    wait_until(lambda: are_gone(pids), within=PATIENCE, what="nothing is left")


def test_a_directory_that_is_removed_ends_it(tmp_path: Path, base: int) -> None:
    directory = tmp_path / "up"
    with Up(tmp_path / "said.txt", "--dir", str(directory), "--port-base", str(base)) as up:
        up.until("zookeeper starts")
        pids = family(up.process.pid)
        directory.rename(tmp_path / "elsewhere")
        assert up.wait() == 1, up.said()
    assert f"penstock up: {directory} was removed while everything ran" in up.said()
    assert "goes on where it stood" not in up.said()
    wait_until(lambda: are_gone(pids), within=PATIENCE, what="nothing is left")


def test_ctrl_c_while_it_still_looks_whether_it_can_start(tmp_path: Path, base: int) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    asked = tmp_path / "asked"
    java.write_text(f"#!/bin/sh\ntouch {asked}\nwhile test -e {asked}; do sleep 0.01; done\n")
    java.chmod(0o755)
    arguments = ("--dir", str(tmp_path / "up"), "--port-base", str(base))
    with Up(tmp_path / "said.txt", *arguments, JAVA_HOME=str(tmp_path)) as up:
        wait_until(asked.exists, within=PATIENCE, what="Java is asked for its version")
        up.interrupt()
        asked.unlink()
        assert up.wait() == 0
    assert up.said() == "Nothing was started.\n"
