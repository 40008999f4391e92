"""One long-running program of a checkout of Penstock, started, asked, killed; its open files may be
kept over its death, as systemd does with `FileDescriptorStoreMax`.

By systemd's own protocol, as sd_notify(3) and sd_listen_fds(3) have it: the program sends
`FDSTORE=1` and a name with its descriptors to `NOTIFY_SOCKET`, takes them back with
`FDSTOREREMOVE=1`, and finds them from descriptor 3 on at its next start, with `LISTEN_FDS`,
`LISTEN_FDNAMES`, and its own number in `LISTEN_PID`. `FDSTORE` says how many may be kept.
"""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import yaml

from harness.processes.frozen_processes import freeze
from harness.processes.server_process import ServerProcess, free_ports

MOST: Final = 512  # of one message
KEPT: Final = 1100  # as the agent's unit has it
# Between fork and exec: descriptors go to where they are expected, and the number of the process,
# which only it knows, into its environment. Above all targets first, so that none is overwritten
# before it was moved.
_HAND_OVER: Final = """
import fcntl, os, sys
count = int(sys.argv[1])
kept, command = [int(each) for each in sys.argv[2 : 2 + count]], sys.argv[2 + count :]
high = [fcntl.fcntl(each, fcntl.F_DUPFD, 3 + count + 1000) for each in kept]
os.closerange(3, 3 + count + 1000)
for number, each in enumerate(high):
    os.dup2(each, 3 + number)
    os.close(each)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(command[0], command)
"""


class Keeper:
    """Descriptors by name, for one program; `close` lets go of all."""

    def __init__(self, directory: Path) -> None:
        # Abstract: a path below a test's directory may be too long for a socket.
        self._address = f"\0witness-{os.getpid()}-{directory.name}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self._address)
        self._lock = threading.Lock()
        self._kept: list[tuple[str, int]] = []
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()

    @property
    def environment(self) -> dict[str, str]:
        """What the program is told."""
        with self._lock:
            names = [name for name, _ in self._kept]
        kept = {"LISTEN_FDS": str(len(names)), "LISTEN_FDNAMES": ":".join(names)} if names else {}
        return {"NOTIFY_SOCKET": "@" + self._address[1:], "FDSTORE": str(KEPT), **kept}

    def command(self, program: Sequence[str]) -> list[str]:
        """The program's, started with all that was kept: pass it `descriptors`, too."""
        kept = [str(each) for each in self.descriptors]
        return [sys.executable, "-S", "-c", _HAND_OVER, str(len(kept)), *kept, *program]

    @property
    def descriptors(self) -> tuple[int, ...]:
        with self._lock:
            return tuple(descriptor for _, descriptor in self._kept)

    def _receive(self) -> None:
        while True:
            try:
                said, descriptors, _, _ = socket.recv_fds(self._socket, 65_536, MOST)
            except OSError:
                return
            if not said and not descriptors:
                return
            words = dict(
                line.partition("=")[::2] for line in said.decode(errors="replace").splitlines()
            )
            name = words.get("FDNAME", "stored")
            with self._lock:
                if words.get("FDSTOREREMOVE") == "1":
                    gone = [each for each in self._kept if each[0] == name]
                    self._kept = [each for each in self._kept if each[0] != name]
                    for _, descriptor in gone:
                        os.close(descriptor)
                if words.get("FDSTORE") == "1":
                    self._kept += [(name, each) for each in descriptors]
                else:
                    for each in descriptors:
                        os.close(each)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)
        for _, descriptor in self._kept:
            os.close(descriptor)
        self._kept = []


class KeptProcess(ServerProcess):
    """A process whose open files are kept by `keeper`."""

    keeper: "Keeper | None" = None

    def spawn(self) -> None:
        if self.keeper is None:
            super().spawn()
            return
        assert not self.alive, f"already running: {self.command}"
        environment = {**os.environ, **self.environment, **self.keeper.environment}
        with self.output.open("ab") as output:
            self._child = subprocess.Popen(
                self.keeper.command(self.command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.output.parent,
                env=environment,
                pass_fds=self.keeper.descriptors,
            )


START: Final = 400.0  # seconds that a program may take to be ready, on a busy machine


def ask(port: int, path: str, *, timeout: float = 30) -> tuple[int, bytes]:
    """Status and body; status 0 while nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


class Program:
    """One long-running program, whose configuration and port stay the same over its starts."""

    def __init__(
        self,
        checkout: Path,
        name: str,
        directory: Path,
        settings: Mapping[str, object],
        *,
        http_port: int,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.directory = directory
        self.http_port = http_port
        self.config = directory / f"{name}.yaml"
        self._settings = dict(settings)
        self.config.write_text(yaml.safe_dump(self._settings))
        command = [str(checkout / ".venv/bin/penstock"), name, "--config", str(self.config)]
        self.process = KeptProcess(
            [*command, *options],
            output=directory / f"{name}{''.join(options)}.log",
            environment=environment,
            directory=directory,
        )

    @property
    def alive(self) -> bool:
        return self.process.alive

    def ready(self) -> bool:
        return ask(self.http_port, "/readyz", timeout=5)[0] == 200

    def spawn(self) -> None:
        if not self.process.alive:
            self.process.spawn()

    def start(self) -> None:
        self.spawn()
        self.process.wait_ready(self.ready, within=START)

    def move(self) -> None:
        """To another port: somebody else has taken this one while it did not run."""
        (self.http_port,) = free_ports(1)
        self._settings["http_port"] = self.http_port
        self.config.write_text(yaml.safe_dump(self._settings))

    def freeze(self) -> None:
        if self.process.alive:
            freeze(self.process.pid)

    def thaw(self) -> None:
        if self.process.alive:
            os.kill(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()

    def stop(self) -> None:
        if self.process.alive:
            with suppress(Exception):
                self.process.terminate(within=30)
        self.process.kill()
