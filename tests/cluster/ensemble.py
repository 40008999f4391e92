"""Three ZooKeepers of Debian's package as one ensemble, each a process that can be killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from cluster import tether, zookeeper_files
from cluster.jars import DEBIAN_JARS, find_class_path, find_java
from cluster.zookeeper import MAIN_CLASS
from cluster.zookeeper_status import answers
from harness.server_process import free_ports

SIZE = 3


class Ensemble:
    def __init__(self, directory: Path) -> None:
        self._directories = [directory / str(number) for number in range(SIZE)]
        self.ports = free_ports(SIZE)
        among = free_ports(2 * SIZE)
        peers = "".join(
            f"server.{number}=127.0.0.1:{among[number]}:{among[SIZE + number]}\n"
            for number in range(SIZE)
        )
        for number, own in enumerate(self._directories):
            (own / zookeeper_files.DATA).mkdir(parents=True)
            (own / zookeeper_files.DATA / "myid").write_text(f"{number}\n")
            for name, text in zookeeper_files.logging_files().items():
                (own / name).write_text(text)
            config = zookeeper_files.server_config("127.0.0.1", self.ports[number])
            config = config.replace("tickTime=500", "tickTime=300\ninitLimit=20\nsyncLimit=5")
            (own / zookeeper_files.SERVER_CONFIG).write_text(config + peers)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def address(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def address_of(self, number: int) -> str:
        return f"127.0.0.1:{self.ports[number]}"

    def start(self, *numbers: int) -> None:
        """Start members, by default all, and wait until they serve."""
        numbers = numbers or tuple(range(SIZE))
        for number in numbers:
            own = self._directories[number]
            with (own / zookeeper_files.CONSOLE).open("wb") as console:
                self._processes[number] = subprocess.Popen(
                    [
                        *(sys.executable, "-I", "-S", str(tether.__file__), str(os.getpid())),
                        *(str(find_java()), *zookeeper_files.JAVA_OPTIONS),
                        *("-cp", find_class_path(DEBIAN_JARS)),
                        *(MAIN_CLASS, zookeeper_files.SERVER_CONFIG),
                    ],
                    cwd=own,
                    stdin=subprocess.DEVNULL,
                    stdout=console,
                    stderr=subprocess.STDOUT,
                )
        for number in numbers:
            self.wait_for(number)

    def wait_for(self, number: int) -> None:
        deadline = time.monotonic() + 60
        while not answers("127.0.0.1", self.ports[number]):
            assert time.monotonic() < deadline, (
                self._directories[number] / "zookeeper.log"
            ).read_text()
            time.sleep(0.05)

    def kill(self, number: int) -> None:
        process = self._processes.pop(number)
        process.kill()
        process.wait()

    def freeze(self, number: int) -> None:
        process = self._processes[number]
        process.send_signal(signal.SIGSTOP)
        while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.01)

    def thaw(self, number: int) -> None:
        self._processes[number].send_signal(signal.SIGCONT)

    def member_of(self, peer: tuple[str, int]) -> int:
        """Which member a client is connected to."""
        return self.ports.index(peer[1])

    def stop(self) -> None:
        for number in tuple(self._processes):
            self.kill(number)
