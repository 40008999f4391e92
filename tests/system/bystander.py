"""A client that does nothing wrong while others do, and measures how it is served.

It is a process of its own: what the test itself is busy with must not count as the broker's delay.
For each record that it has written and read back it prints the seconds that took, one in a line,
when it is over: nobody reads a pipe meanwhile, and a full one would end the measuring.
"""

import select
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from harness.server_process import ServerFailed
from tests.system.raw import (
    FETCH,
    PRODUCE,
    RawConnection,
    fetch_body,
    produce_body,
    read_fetched,
    read_produced,
    record_batch,
)

REPOSITORY = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True, slots=True)
class Served:
    """How long it took to write a record and read it back, in seconds."""

    count: int
    median: float
    p99: float
    longest: float


class Bystander:
    """The process: starts with the object, and is judged when it is finished."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.system.bystander", bootstrap, topic],
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
        """Ends it; fails if it was ever refused, or kept waiting without measure."""
        output, errors = self._process.communicate(timeout=30)
        assert self._process.returncode == 0, f"the bystander failed:\n{errors}"
        ordered = sorted(float(line) for line in output.split()) or [0.0]
        served = Served(
            len(ordered), ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100], ordered[-1]
        )
        said = f"bystander: {served}"
        print(said)
        # Loose: the machine is shared, and what is looked for is standstill.
        assert served.median < 1, said
        assert served.longest < 5, said
        return served


def main(bootstrap: str, topic: str) -> None:
    """Until its standard input is closed."""
    taken: list[float] = []
    with RawConnection(bootstrap) as connection:
        while not select.select([sys.stdin], [], [], 0.02)[0]:
            began = time.monotonic()
            write_and_read(connection, topic, b"number %d" % len(taken))
            taken.append(time.monotonic() - began)
            if len(taken) == 1:
                print(flush=True)  # it is served
    print(*taken, sep="\n")


def write_and_read(connection: RawConnection, topic: str, value: bytes) -> None:
    body = produce_body(topic, 0, record_batch([value]))
    produced = read_produced(connection.ask(PRODUCE, 7, body))
    assert produced.error == 0, produced
    body = fetch_body(topic, 0, produced.base_offset, max_bytes=10_000, wait_ms=1000)
    fetched = read_fetched(connection.ask(FETCH, 4, body))
    assert fetched.error == 0, fetched
    assert value in fetched.records


if __name__ == "__main__":
    main(*sys.argv[1:])
