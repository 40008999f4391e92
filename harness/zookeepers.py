"""ZooKeepers of a cluster: one, or an ensemble, each a process that can be killed and frozen.

They are started as the embedded one is, with the same jars and settings; several know each other by
`server.N` in their configuration. Ports and directories stay the same over all starts.
"""

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from cluster import tether, zookeeper_files
from cluster.jars import find_class_path, find_java
from cluster.zookeeper import MAIN_CLASS
from harness.server_process import RunningServer, ServerFailed, ServerProcess, free_ports

Mode = Literal["leader", "follower", "standalone"]
_TRIES: Final = 5  # a ZooKeeper gives up soon where much else runs
# Beside what the embedded one answers: what it holds.
_COMMANDS: Final = "4lw.commands.whitelist=ruok,srvr,mntr\n"
_LIMITS: Final = {"initLimit": "20", "syncLimit": "4"}  # in ticks
_ANSWERS_WITHIN: Final = 2.0


class ZooKeeperProcess(RunningServer):
    """One of them; `number` is that in its ensemble, if it has others."""

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
        """What it is among them; nothing while it does not serve."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), _ANSWERS_WITHIN) as connection:
                connection.sendall(b"srvr")
                said = b""
                while data := connection.recv(4096):
                    said += data
        except OSError:
            return None
        modes: tuple[Mode, ...] = ("leader", "follower", "standalone")
        return next((each for each in modes if f"Mode: {each}".encode() in said), None)

    def ready(self) -> bool:
        return self.mode is not None


def zookeeper_command(*options: str, jars: Sequence[Path] = ()) -> list[str]:
    """As the embedded one is started, with further options of the JVM and further jars."""
    class_path = ":".join([find_class_path(), *map(str, jars)])
    return [
        *(sys.executable, "-I", "-S", str(tether.__file__), str(os.getpid())),
        *(str(find_java()), *zookeeper_files.JAVA_OPTIONS, *options, "-cp", class_path),
        *(MAIN_CLASS, zookeeper_files.SERVER_CONFIG),
    ]


class ZooKeepers:
    """All of them; `start` them, and `close` them at the end."""

    def __init__(self, directory: Path, count: int = 1) -> None:
        ports = free_ports(3 * count)
        told = ""
        if count > 1:
            settings = dict(_LIMITS)
            for number in range(1, count + 1):
                first, second = ports[count + 2 * number - 2 : count + 2 * number]
                settings[f"server.{number}"] = f"127.0.0.1:{first}:{second}"
            told = "".join(f"{key}={value}\n" for key, value in settings.items())
        self.servers = [
            ZooKeeperProcess(
                directory / f"zookeeper-{number}",
                port,
                zookeeper_files.server_config("127.0.0.1", port) + _COMMANDS + told,
                number=number if told else 0,
            )
            for number, port in enumerate(ports[:count], 1)
        ]
        self._frozen: set[ZooKeeperProcess] = set()

    @property
    def address(self) -> str:
        return ",".join(f"127.0.0.1:{each.port}" for each in self.servers)

    @property
    def serve(self) -> bool:
        """Whether so many are there and not frozen that they can."""
        there = [each for each in self.servers if each.process.alive and each not in self._frozen]
        return 2 * len(there) > len(self.servers)

    @property
    def whole(self) -> bool:
        """Whether all are there and not frozen."""
        return not self._frozen and all(each.process.alive for each in self.servers)

    def start(self) -> None:
        """All that are not there; returns when they serve, if they are enough for that."""
        for _ in range(_TRIES - 1):
            with contextlib.suppress(ServerFailed):
                return self._start()
        return self._start()

    def _start(self) -> None:
        for each in self.servers:
            if not each.process.alive:
                self._frozen.discard(each)
                each.spawn()
        if self.serve:
            for each in set(self.servers) - self._frozen:
                each.process.wait_ready(each.ready, within=60)

    def kill(self, which: Mode | None = None) -> None:
        """All, or one that is this; nobody, if none is."""
        for each in self._chosen(which):
            self._frozen.discard(each)
            each.kill()

    def freeze(self, which: Mode | None = None) -> None:
        for each in self._chosen(which):
            if each.process.alive:
                os.kill(each.process.pid, signal.SIGSTOP)
                self._frozen.add(each)

    def thaw(self) -> None:
        for each in self._frozen:
            os.kill(each.process.pid, signal.SIGCONT)
        self._frozen.clear()

    def _chosen(self, which: Mode | None) -> list[ZooKeeperProcess]:
        if which is None:
            return self.servers
        awake = [each for each in self.servers if each not in self._frozen]
        return [each for each in awake if each.mode == which][:1]

    def close(self) -> None:
        for each in self.servers:
            each.kill()
