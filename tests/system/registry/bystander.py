"""A client that only reads, while others do their worst, and measures how it is served.

It is a process of its own: what the test itself is busy with must not count as the registry's
delay. It prints one line for each answer: the seconds that took.
"""

import http.client
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from harness.server_process import ServerFailed

REPOSITORY = Path(__file__).resolve().parents[3]


class Served(NamedTuple):
    """Of all answers, in seconds."""

    median: float
    p99: float
    longest: float
    answers: int

    def __str__(self) -> str:
        times = f"median {self.median * 1e3:.1f}, p99 {self.p99 * 1e3:.0f}"
        return f"bystander: {times}, longest {self.longest * 1e3:.0f} ms, of {self.answers}"


class Bystander:
    """The process: starts with the object, and is judged when it is finished."""

    def __init__(self, address: str, path: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.system.registry.bystander", address, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
        )
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            _, errors = self._process.communicate()
            raise ServerFailed(f"the bystander was never served:\n{errors}")

    def finish(self) -> Served:
        """Ends it; fails if it was ever refused."""
        output, errors = self._process.communicate(timeout=60)
        assert self._process.returncode == 0, f"the bystander failed:\n{errors}"
        ordered = sorted(float(line) for line in output.split()) or [0.0]
        count = len(ordered)
        served = Served(ordered[count // 2], ordered[int(count * 0.99)], ordered[-1], count)
        print(served)
        return served


def main(address: str, path: str) -> None:
    """Until its standard input is closed."""
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
    """Status and body; connects first where it must."""
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
