"""A program that writes numbered lines to a log file, and rotates it or lets it be rotated.

Run as `python -m tests.system.agent.writer PATH NAME COUNT …`; `Writer` is such a process. The
lines are those of `Numbered`, from 0 to COUNT less one, or until it is told to end by
SIGTERM; it prints how many they were, so that whoever reads them knows what must be there.

    --rotate open     writes where the path leads: a file that was moved away is left
    --rotate hold     never opens it again: for whoever copies and truncates
    --rotate chain    as log4j: the oldest goes, path.2 becomes path.3, …, path becomes path.1
    --rotate python   logging.handlers.RotatingFileHandler
    --rotate clock    logging.handlers.TimedRotatingFileHandler, every second
"""

import argparse
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from logging.handlers import RotatingFileHandler, TimedRotatingFileHandler
from pathlib import Path
from typing import BinaryIO

REPOSITORY = Path(__file__).resolve().parents[3]
PACE = 0.01  # seconds between writes


@dataclass(frozen=True)
class Numbered:
    """Lines that say their number alone, of writers that nobody can keep book of byte by byte.

    `since`: the lines are JSON and say when they happened, one millisecond after the other.
    """

    writer: str
    size: int = 0
    since: int | None = None

    def message(self, number: int) -> str:
        return f"{self.writer} {number} ".ljust(self.size, "x")

    def line(self, number: int) -> str:
        """Without its newline."""
        if self.since is None:
            return self.message(number)
        return json.dumps({"ts": self.since + number, "message": self.message(number)})


class Writer:
    """A writer in a separate process."""

    def __init__(
        self,
        path: Path,
        name: str,
        count: int,
        *,
        rate: float = 2_000,
        size: int = 100,
        rotate: str = "open",
        every: int = 0,
        keep: int = 5,
        since: int | None = None,
    ) -> None:
        """`every` is the number of lines between the writer's own rotations."""
        self.path, self.name, self.count = path, name, count
        self.lines = Numbered(name, size, since)
        options = {"rate": rate, "size": size, "rotate": rotate, "every": every, "keep": keep}
        self._command = [sys.executable, "-m", "tests.system.agent.writer", str(path), name]
        self._command += [str(count), *(f"--{key}={options[key]}" for key in options)]
        self._command += [] if since is None else [f"--since={since}"]
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._child = subprocess.Popen(self._command, cwd=REPOSITORY, stdout=subprocess.PIPE)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Suspend the writer within the block."""
        assert self._child is not None
        self._child.send_signal(signal.SIGSTOP)
        # A write that it is in ends first.
        os.waitid(os.P_PID, self._child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        try:
            yield
        finally:
            self._child.send_signal(signal.SIGCONT)

    def finish(self, *, within: float = 60) -> None:
        """Wait until everything is written; `count` then has the number of lines."""
        assert self._child is not None
        said, _ = self._child.communicate(timeout=within)
        assert self._child.returncode == 0
        self.count = int(said)

    def stop(self) -> None:
        """End after the current line."""
        assert self._child is not None
        self._child.terminate()
        self.finish()

    def kill(self) -> None:
        if self._child is not None and self._child.returncode is None:
            self._child.kill()
            self._child.communicate()


class ToFile:
    """Plain writes to a file."""

    def __init__(self, path: Path, rotate: str, keep: int) -> None:
        self._path, self._rotate, self._keep = path, rotate, keep
        self._file = self._open()

    def _open(self) -> BinaryIO:
        return self._path.open("ab", buffering=0)

    def write(self, lines: list[str]) -> None:
        if self._rotate == "open" and self._is_another():
            self._file.close()
            self._file = self._open()
        self._file.write("".join(f"{line}\n" for line in lines).encode())

    def _is_another(self) -> bool:
        """Whether there is a new file; until then the old one is used."""
        try:
            return self._path.stat().st_ino != os.fstat(self._file.fileno()).st_ino
        except FileNotFoundError:
            return False

    def roll(self) -> None:
        self._file.close()
        names = [self._path, *(Path(f"{self._path}.{n}") for n in range(1, self._keep + 1))]
        names[-1].unlink(missing_ok=True)
        for newer, older in zip(names[-2::-1], names[:0:-1], strict=True):
            with suppress(FileNotFoundError):
                newer.rename(older)
        self._file = self._open()


class ToHandler:
    """Python's logging handlers, which rotate by themselves."""

    def __init__(self, handler: logging.Handler) -> None:
        self._logger = logging.getLogger("writer")
        self._logger.addHandler(handler)
        self._logger.setLevel(logging.INFO)
        self._logger.propagate = False

    def write(self, lines: list[str]) -> None:
        for line in lines:
            self._logger.info(line)

    def roll(self) -> None:
        raise NotImplementedError


def write_all(arguments: argparse.Namespace) -> int:
    """Returns the number of lines."""
    told_to_end: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: told_to_end.append(number))
    lines = Numbered(arguments.name, arguments.size, arguments.since)
    size, every, keep = arguments.size, arguments.every, arguments.keep
    path = Path(arguments.path)
    target: ToFile | ToHandler
    if arguments.rotate == "python":
        most = every * (size + 1)
        target = ToHandler(RotatingFileHandler(path, maxBytes=most, backupCount=keep))
    elif arguments.rotate == "clock":
        target = ToHandler(TimedRotatingFileHandler(path, when="S", backupCount=keep))
    else:
        target = ToFile(path, arguments.rotate, keep)
    began, written = time.monotonic(), 0
    while written < arguments.count and not told_to_end:
        due = int((time.monotonic() - began) * arguments.rate) + 1
        until = min(due, arguments.count)
        if arguments.rotate == "chain":
            until = min(until, written // every * every + every)
        target.write([lines.line(at) for at in range(written, until)])
        written = until
        if arguments.rotate == "chain" and written % every == 0 and written < arguments.count:
            target.roll()
        elif written == due:
            time.sleep(PACE)
    return written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path")
    parser.add_argument("name")
    parser.add_argument("count", type=int)
    parser.add_argument("--rate", type=float, default=2_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--rotate", default="open")
    parser.add_argument("--every", type=int, default=0)
    parser.add_argument("--keep", type=int, default=5)
    parser.add_argument("--since", type=int)
    print(write_all(parser.parse_args()))


if __name__ == "__main__":
    main()
