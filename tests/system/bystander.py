"""A client that does nothing wrong while others do, and measures how it is served.

It is a process of its own: what the test itself is busy with must not count as the broker's delay.
For each record that it has written and read back it prints the seconds that took, one in a line,
when it is over: nobody reads a pipe meanwhile, and a full one would end the measuring.

A record is on disk before it is answered, and a disk that others write much to may let that wait
for seconds: no broker's fault. So the bystander writes to a file of its own meanwhile, and says how
long the disk took for that: as much is allowed for. The file is in the temporary directory, as what
the brokers of tests write is.

With an `entry` it logs in; `anew` it does so for each record, on a new connection.
"""

import argparse
import contextlib
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import msgspec

from harness.processes.server_process import ServerFailed
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
from tests.system.raw_login import Entry

REPOSITORY = Path(__file__).resolve().parent.parent.parent
_PATIENCE_S = 30


class Served(msgspec.Struct, frozen=True):
    """Seconds to write a record and read it back, including a login if each has one."""

    count: int
    median: float
    p99: float
    longest: float
    disk: float
    """The longest that the disk took for a few bytes, meanwhile."""

    @property
    def disk_wait(self) -> float:
        """What one of them may have waited for the disk: to be written, until the flush that was
        under way has ended, and for the next one."""
        return 3 * self.disk

    @property
    def is_standstill(self) -> bool:
        """The limit is loose, as the machine is shared."""
        return self.median > 1 + self.disk_wait or self.longest > 5 + self.disk_wait

    def __str__(self) -> str:
        times = (self.median, self.p99, self.longest, self.disk)
        median, p99, longest, disk = (f"{each * 1000:.1f} ms" for each in times)
        return f"{self.count} times, median {median}, p99 {p99}, longest {longest}; disk: {disk}"


class _Disk:
    """Repeatedly writes a few bytes and waits until they are on disk."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        with tempfile.TemporaryFile(buffering=0) as file:
            while not self._over.wait(0.05):
                file.write(b"a few bytes\n")
                began = time.monotonic()
                os.fdatasync(file.fileno())
                self.longest = max(self.longest, time.monotonic() - began)

    def __enter__(self) -> "_Disk":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


class Bystander:
    """A process that starts with the object, and is judged when it is finished."""

    def __init__(
        self, bootstrap: str, topic: str, entry: Entry | None = None, *, anew: bool = False
    ) -> None:
        options = ["--anew"] if anew else []
        if entry is not None:
            options += ["--user", entry.user, "--password-file", str(entry.password_file)]
            options += ["--ca", str(entry.ca)] if entry.ca is not None else []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.system.bystander", bootstrap, topic, *options],
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
        """Stop it; fails if it was refused or waited too long."""
        served = self.measured()
        said = f"bystander: {served}"
        print(said)
        assert not served.is_standstill, said
        return served

    def measured(self) -> Served:
        """Stop it; fails if it was refused."""
        output, errors = self._process.communicate(timeout=60)
        assert self._process.returncode == 0, f"the bystander failed:\n{errors}"
        disk, *taken = (float(line) for line in output.split())
        ordered = sorted(taken) or [0.0]
        return Served(
            count=len(ordered),
            median=ordered[len(ordered) // 2],
            p99=ordered[len(ordered) * 99 // 100],
            longest=ordered[-1],
            disk=disk,
        )

    def kill(self) -> None:
        """Stop it without a verdict."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def main() -> None:
    """Runs until standard input is closed."""
    parser = argparse.ArgumentParser(prog="tests.system.bystander", description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("--user")
    parser.add_argument("--password-file", type=Path)
    parser.add_argument("--ca", type=Path)
    parser.add_argument("--anew", action="store_true")
    options = parser.parse_args()
    entry = Entry(options.user, options.password_file, options.ca) if options.user else None

    def connection() -> RawConnection:
        if entry is None:
            return RawConnection(options.bootstrap)
        return entry.connection(options.bootstrap)

    taken: list[float] = []
    with contextlib.ExitStack() as stack:
        disk = stack.enter_context(_Disk())
        kept = None if options.anew else stack.enter_context(connection())
        while not select.select([sys.stdin], [], [], 0.02)[0]:
            began = time.monotonic()
            with contextlib.ExitStack() as turn:
                this = kept or turn.enter_context(connection())
                write_and_read(this, options.topic, b"number %d" % len(taken))
                taken.append(time.monotonic() - began)
            if len(taken) == 1:
                print(flush=True)  # it is served
    print(disk.longest, *taken, sep="\n")


def write_and_read(connection: RawConnection, topic: str, value: bytes) -> None:
    body = produce_body(topic, 0, record_batch([value]))
    produced = read_produced(connection.ask(PRODUCE, 7, body))
    assert produced.error == 0, produced
    body = fetch_body(topic, 0, produced.base_offset, max_bytes=10_000, wait_ms=1000)
    patience = time.monotonic() + _PATIENCE_S
    while True:
        fetched = read_fetched(connection.ask(FETCH, 4, body))
        assert fetched.error == 0, fetched
        if value in fetched.records:
            return
        # A broker that is short of files answers with nothing, and consumers ask again.
        assert not fetched.records, fetched
        assert time.monotonic() < patience, "it is not shown what is acknowledged"


if __name__ == "__main__":
    main()
