"""Watches a registry under attack: its memory, its survival, and its service to another client.

The other client is a separate process, run as `python -m tests.system.registry.hostile ADDRESS
PATH`, so that the test's own work does not count as the registry's delay. It only reads, and prints
the seconds of each answer on a line.
"""

import http.client
import json
import select
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple, Self

from harness.penstock.registry import RegistryProcess

REPOSITORY = Path(__file__).resolve().parents[3]
MIB = 1024 * 1024


def record(name: str, fields: int, of: Any = "int", **more: Any) -> str:
    """A record of `count` fields, each with a default if its type allows null."""
    default = {"default": None} if isinstance(of, list) else {}
    listed = [{"name": f"f{number}", "type": of, **default} for number in range(fields)]
    return json.dumps({"type": "record", "name": name, **more, "fields": listed})


class Served(NamedTuple):
    """Latencies in seconds."""

    median: float
    p99: float
    longest: float
    answers: int


class Watched:
    """`with Watched(registry, path)`: another client requests the path all the time.

    At the end the registry is alive, has logged no bug, has not grown by more than `grown`
    bytes, and has answered the other client within `longest` seconds; `served` has the latencies.
    """

    served: Served

    def __init__(
        self, registry: RegistryProcess, path: str, *, grown: int = 100 * MIB, longest: float = 5
    ) -> None:
        self._registry = registry
        self._path = path
        self._grown = grown
        self._longest = longest
        self._over = threading.Event()
        self._most = 0
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        process = self._registry.process
        while process.alive and not self._over.wait(0.05):
            self._most = max(self._most, process.rss() - self._before)

    def __enter__(self) -> Self:
        module = "tests.system.registry.hostile"
        self._bystander = subprocess.Popen(
            [sys.executable, "-m", module, self._registry.address, self._path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
        )
        assert self._bystander.stdout is not None
        if not self._bystander.stdout.readline():
            raise AssertionError(f"never served:\n{self._bystander.communicate()[1]}")
        self._before = self._registry.process.rss()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        output, errors = self._bystander.communicate(timeout=60)
        assert self._bystander.returncode == 0, f"the bystander failed:\n{errors}"
        ordered = sorted(float(line) for line in output.split()) or [0.0]
        count = len(ordered)
        p99 = ordered[int(count * 0.99)]
        served = self.served = Served(ordered[count // 2], p99, ordered[-1], count)
        print(served, f"grown by {self._most / MIB:.0f} MiB at most")
        assert self._registry.process.alive, self._registry.process.last_words()
        assert "Traceback" not in self._registry.log(), self._registry.process.last_words()
        assert self._most < self._grown
        # Loose: the machine is shared, and what is looked for is standstill.
        assert served.median < 0.5, served
        assert served.longest < self._longest, served


def main(address: str, path: str) -> None:
    """Runs until standard input is closed."""
    connection = http.client.HTTPConnection(address, timeout=60)
    while not select.select([sys.stdin], [], [], 0.01)[0]:
        began = time.monotonic()
        try:
            status, content = ask(connection, path)
        except ConnectionError:
            # It was idle, perhaps for longer than thousands of others, and made room for them.
            connection.close()
            status, content = ask(connection, path)
        assert status == 200, (status, content)
        print(time.monotonic() - began, flush=True)
    connection.close()


def ask(connection: http.client.HTTPConnection, path: str) -> tuple[int, bytes]:
    """Returns status and body; connects first if necessary."""
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
