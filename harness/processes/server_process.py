"""Servers as child processes: start, wait, measure, kill, and keep their output in files.

Output goes to a file rather than a pipe, so that a server with much output never blocks, and its
last words survive a SIGKILL. A restart appends to the same file. A process must be ended by the
code that started it: use it as a context manager, or call `kill` at the end of a fixture.

    ServerProcess     a child process, whatever it runs
    RunningServer     a server that is one process, and knows when it is ready
    RunningServers    several of these that serve together
"""

import http.client
import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from ground.network import listening
from harness.processes.waiting import Looks

LEAST_START_SECONDS: Final = 180.0
OUTPUTS: Final[set[Path]] = set()  # of all processes started by this one


class ServerFailed(Exception):
    """A server ended, or was not ready in time; the message has the end of its output."""


def free_ports(count: int) -> list[int]:
    """Returns free loopback ports, for servers that are about to start."""
    return listening.free_ports("127.0.0.1", count)


def http_page(port: int, path: str) -> tuple[int, str]:
    """Returns status and body of a page on loopback; status 0 if there is no answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException):
        return 0, ""
    finally:
        connection.close()


class ServerProcess:
    """A child process that can be restarted."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        output: Path,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        self.command = list(command)
        self.output = output
        self.environment = dict(environment or {})
        self.directory = directory
        self._child: subprocess.Popen[bytes] | None = None

    def spawn(self) -> None:
        """Starts the program without waiting."""
        assert not self.alive, f"already running: {self.command}"
        OUTPUTS.add(self.output)
        with self.output.open("ab") as output:
            self._child = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env={**os.environ, **self.environment},
            )

    @property
    def alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int:
        assert self._child is not None, "never started"
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        assert self._child is not None, "never started"
        return self._child.poll()

    def kill(self) -> None:
        """Sends SIGKILL: nothing is flushed, no handler runs. Returns once the process is gone."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()

    def terminate(self, *, within: float = 60) -> int:
        """Sends SIGTERM; returns the exit code. Fails if the process does not end in time."""
        assert self._child is not None, "never started"
        self._child.send_signal(signal.SIGTERM)
        return self.wait(within=within)

    def wait(self, *, within: float) -> int:
        """Waits until the process ends by itself; returns the exit code."""
        assert self._child is not None, "never started"
        try:
            return self._child.wait(within)
        except subprocess.TimeoutExpired:
            raise ServerFailed(f"still running after {within:g} s\n{self.last_words()}") from None

    def wait_ready(self, is_ready: Callable[[], bool], *, within: float) -> None:
        """Polls `is_ready` until it is true; fails at once if the process ends first."""
        _wait_ready([(self, is_ready)], within=within)

    def log(self) -> str:
        """Returns the server's whole output, over all restarts."""
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def last_words(self, lines: int = 40) -> str:
        return "\n".join(self.log().splitlines()[-lines:])

    def rss(self) -> int:
        """The resident memory, in bytes."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def most_rss(self) -> int:
        """The peak of resident memory, in bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def cpu_seconds(self) -> float:
        """The user and system time used so far."""
        # The command's name may contain spaces and parentheses.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def open_files(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self.pid}/fd").iterdir())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def _wait_ready(
    servers: Iterable[tuple[ServerProcess, Callable[[], bool]]], *, within: float
) -> None:
    """Waits until all are ready; fails at once if one of them ends before."""
    looks = Looks(max(within, LEAST_START_SECONDS))
    unready = dict(servers)
    processes = list(unready)
    while unready := {process: is_ready for process, is_ready in unready.items() if not is_ready()}:
        for process in processes:
            if not process.alive:
                reason = f"{process.output.name}: ended with {process.exit_code}"
                raise ServerFailed(f"{reason}\n{process.last_words()}")
        try:
            looks.give_up("a server is ready")
        except TimeoutError as error:
            logs = (f"{process.output.name}:\n{process.last_words()}" for process in unready)
            raise ServerFailed("\n".join([str(error), *logs])) from None
        time.sleep(looks.pause())


class _Running(ABC):
    """A context manager that starts a server, and leaves nothing behind."""

    @abstractmethod
    def start(self, *, within: float = 60) -> None:
        """Starts the server; returns once it is ready."""

    @abstractmethod
    def stop(self) -> None:
        """Ends the server gently, or by force if it takes too long."""

    @abstractmethod
    def kill(self) -> None:
        """Sends SIGKILL."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class RunningServer(_Running):
    """A server run as a user would; ports and files stay the same over restarts."""

    process: ServerProcess

    @abstractmethod
    def ready(self) -> bool:
        """Whether the server answers requests."""

    def spawn(self) -> None:
        """Starts the server without waiting until it is ready."""
        self.process.spawn()

    def start(self, *, within: float = 60) -> None:
        self.spawn()
        self.process.wait_ready(self.ready, within=within)

    def kill(self) -> None:
        self.process.kill()

    def terminate(self, *, within: float = 60) -> int:
        return self.process.terminate(within=within)

    def restart(self, *, within: float = 60) -> None:
        """Kills the server with SIGKILL, and starts it again."""
        self.kill()
        self.start(within=within)

    def log(self) -> str:
        return self.process.log()

    def stop(self) -> None:
        if self.process.alive:
            try:
                self.terminate()
            except ServerFailed:
                self.kill()


class RunningServers(_Running):
    """Servers that belong together; each can also be killed and started alone."""

    servers: Sequence[RunningServer]
    """In starting order; they are stopped in reverse."""

    def spawn(self) -> None:
        """Starts all servers in parallel: those that need others wait for them."""
        for server in self.servers:
            server.spawn()

    def start(self, *, within: float = 60) -> None:
        self.spawn()
        _wait_ready([(server.process, server.ready) for server in self.servers], within=within)

    def stop(self) -> None:
        for server in reversed(self.servers):
            server.stop()

    def kill(self) -> None:
        for server in reversed(self.servers):
            server.kill()
