"""The ZooKeepers of a cluster: one, or an ensemble, each a process that can be killed and frozen.

They run like the embedded one, with the same jars and settings; in an ensemble, `server.N` in their
configuration names the others. Ports and directories stay the same over restarts.
"""

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from cluster.zookeeper_server import files as zookeeper_files
from cluster.zookeeper_server import tether
from cluster.zookeeper_server.jars import find_class_path, find_java
from cluster.zookeeper_server.server import MAIN_CLASS
from harness.processes.server_process import RunningServer, ServerFailed, ServerProcess, free_ports

Mode = Literal["leader", "follower", "standalone"]
_TRIES: Final = 5  # a ZooKeeper gives up early on a busy machine
# Besides what the embedded one answers: its contents.
_COMMANDS: Final = "4lw.commands.whitelist=ruok,srvr,mntr\n"
_LIMITS: Final = {"initLimit": "20", "syncLimit": "4"}  # in ticks
_ANSWERS_WITHIN: Final = 2.0


class ZooKeeperProcess(RunningServer):
    """One ZooKeeper; `number` is its number in the ensemble, if it is in one."""

    def __init__(self, directory: Path, port: int, config: str, *, number: int = 0) -> None:
        self.port = port
        data = directory / zookeeper_files.DATA
        data.mkdir(parents=True, exist_ok=True)
        for name, text in zookeeper_files.logging_files().items():
            (directory / name).write_text(text)
        (directory / zookeeper_files.SERVER_CONFIG).write_text(config)
        if number:
            (data / "myid").write_text(str(number))
        self.process = ServerProcess(
            zookeeper_command(), output=directory / zookeeper_files.CONSOLE, directory=directory
        )

    @property
    def mode(self) -> Mode | None:
        """The server's mode in the ensemble; None while it does not serve."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), _ANSWERS_WITHIN) as connection:
                connection.sendall(b"srvr")
                answer = b""
                while data := connection.recv(4096):
                    answer += data
        except OSError:
            return None
        modes: tuple[Mode, ...] = ("leader", "follower", "standalone")
        return next((mode for mode in modes if f"Mode: {mode}".encode() in answer), None)

    def ready(self) -> bool:
        return self.mode is not None


def zookeeper_command(*options: str, jars: Sequence[Path] = ()) -> list[str]:
    """Returns the command line of an embedded ZooKeeper, with further JVM options and jars."""
    class_path = ":".join([find_class_path(), *map(str, jars)])
    return [
        *(sys.executable, "-I", "-S", str(tether.__file__), str(os.getpid())),
        *(str(find_java()), *zookeeper_files.JAVA_OPTIONS, *options, "-cp", class_path),
        *(MAIN_CLASS, zookeeper_files.SERVER_CONFIG),
    ]


class ZooKeepers:
    """All ZooKeepers of a cluster; `start` starts them, and `close` ends them."""

    def __init__(self, directory: Path, count: int = 1) -> None:
        ports = free_ports(3 * count)
        ensemble = ""
        if count > 1:
            settings = dict(_LIMITS)
            for number in range(1, count + 1):
                first, second = ports[count + 2 * number - 2 : count + 2 * number]
                settings[f"server.{number}"] = f"127.0.0.1:{first}:{second}"
            ensemble = "".join(f"{key}={value}\n" for key, value in settings.items())
        self.servers = [
            ZooKeeperProcess(
                directory / f"zookeeper-{number}",
                port,
                zookeeper_files.server_config("127.0.0.1", port) + _COMMANDS + ensemble,
                number=number if ensemble else 0,
            )
            for number, port in enumerate(ports[:count], 1)
        ]
        self._frozen: set[ZooKeeperProcess] = set()

    @property
    def address(self) -> str:
        return ",".join(f"127.0.0.1:{server.port}" for server in self.servers)

    @property
    def serve(self) -> bool:
        """Whether enough servers are running, and not frozen, to serve."""
        active_servers = [
            server for server in self.servers if server.process.alive and server not in self._frozen
        ]
        return 2 * len(active_servers) > len(self.servers)

    @property
    def whole(self) -> bool:
        """Whether all servers are running, and none is frozen."""
        return not self._frozen and all(server.process.alive for server in self.servers)

    def start(self) -> None:
        """Starts all servers that are not running; returns once they serve, if they are a
        quorum."""
        for _ in range(_TRIES - 1):
            with contextlib.suppress(ServerFailed):
                return self._start()
        return self._start()

    def _start(self) -> None:
        for server in self.servers:
            if not server.process.alive:
                self._frozen.discard(server)
                server.spawn()
        if self.serve:
            for server in set(self.servers) - self._frozen:
                server.process.wait_ready(server.ready, within=60)

    def kill(self, mode: Mode | None = None) -> None:
        """Kills all servers, or one in this mode if there is one."""
        for server in self._in_mode(mode):
            self._frozen.discard(server)
            server.kill()

    def freeze(self, mode: Mode | None = None) -> None:
        for server in self._in_mode(mode):
            if server.process.alive:
                os.kill(server.process.pid, signal.SIGSTOP)
                self._frozen.add(server)

    def thaw(self) -> None:
        for server in self._frozen:
            os.kill(server.process.pid, signal.SIGCONT)
        self._frozen.clear()

    def _in_mode(self, mode: Mode | None) -> list[ZooKeeperProcess]:
        if mode is None:
            return self.servers
        awake_servers = [server for server in self.servers if server not in self._frozen]
        return [server for server in awake_servers if server.mode == mode][:1]

    def close(self) -> None:
        for server in self.servers:
            server.kill()
