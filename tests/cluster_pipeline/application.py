"""The applications of some hosts, which write log lines all the while and keep the truth of them.

Files are rotated by renaming, and stay: whatever is not in the store at the end was lost on the
way. While an agent is dead nothing of its host is rotated, since what nobody saw cannot be proven
(docs/decisions/0032-what-nobody-saw-is-said.md), and the verdict would say so.
"""

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.system.crash import Worker

FILES: Final = ("front", "back")
_EVERY: Final = 0.05  # seconds
_MOST: Final = 20  # lines at a time
_ROTATES_AT: Final = 128 * 1024  # bytes


class Application(Worker):
    def __init__(self, directory: Path, hosts: Sequence[str], seed: int) -> None:
        super().__init__("application")
        self.lines: dict[str, list[str]] = {host: [] for host in hosts}
        self.rotations = 0
        self._counts = dict.fromkeys(hosts, 0)
        self._directory = directory
        self._chance = random.Random(f"application {seed}")
        self._sizes: dict[Path, int] = {}
        self._unwatched: set[str] = set()
        self._lock = threading.Lock()
        for host in hosts:
            self.folder(host).mkdir(parents=True)

    def folder(self, host: str) -> Path:
        return self._directory / host

    def sizes(self) -> dict[str, int]:
        """Of the files that are written to and have something, by path."""
        return {str(path): size for path, size in self._sizes.items() if size}

    @contextmanager
    def without_rotation(self, host: str) -> Iterator[None]:
        """Nothing is renamed in this host's folder meanwhile; lines are written."""
        with self._lock:
            self._unwatched.add(host)
        try:
            yield
        finally:
            with self._lock:
                self._unwatched.discard(host)

    def note(self, host: str, lines: list[str]) -> None:
        """They are about to be written."""
        self.lines[host] += lines

    def rotated(self, host: str, path: Path) -> None:
        """A file has this name from now on. Nothing else of this host is rotated meanwhile."""

    def write_one(self, host: str) -> tuple[Path, int, int]:
        """One line more, once it has ended: its file, where it begins there, and where it ends."""
        path = self.folder(host) / f"{FILES[0]}.log"
        begins = self._sizes.get(path, 0)
        self._write(host, path, 1)
        return path, begins, self._sizes[path]

    def work(self) -> None:
        while not self._stop_asked.wait(_EVERY):
            host = self._chance.choice(sorted(self.lines))
            path = self.folder(host) / f"{self._chance.choice(FILES)}.log"
            self._write(host, path, self._chance.randint(1, _MOST))
            with self._lock:
                if self._sizes[path] >= _ROTATES_AT and host not in self._unwatched:
                    self._rotate(host, path)

    def _write(self, host: str, path: Path, count: int) -> None:
        begins = self._counts[host]
        filler = "x" * self._chance.randrange(60)
        texts = [
            f"{host} {path.stem} line {number} at {time.time_ns()} {filler}"
            for number in range(begins, begins + count)
        ]
        self.note(host, texts)
        self._counts[host] += count
        content = "".join(f"{each}\n" for each in texts).encode()
        with path.open("ab") as file:
            file.write(content)
        self._sizes[path] = self._sizes.get(path, 0) + len(content)

    def _rotate(self, host: str, path: Path) -> None:
        self.rotations += 1
        name = path.with_name(f"{path.stem}-{self.rotations}.log")
        path.rename(name)
        self._sizes[path] = 0
        self.rotated(host, name)
