"""The applications of some hosts, which write log lines all the while and keep the truth of them.

Files are rotated by renaming. While an agent is dead nothing of its host is rotated, since what
nobody saw cannot be proven (docs/decisions/0032-what-nobody-saw-is-said.md), and the verdict would
say so. In a soak, of rotated files the last stay, and any that is not shipped.
"""

import random
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from harness.penstock.agent import AgentProcess
from tests.campaigns.pipeline.lines import Tally
from tests.system.crash import Worker

FILES: Final = ("front", "back")
_EVERY: Final = 0.05  # seconds
_MOST: Final = 20  # lines at a time
_ROTATES_AT: Final = 128 * 1024  # bytes
_KEPT: Final = 6  # rotated files of each name
Shipped = Callable[[Path], bool]


class Application(Worker):
    def __init__(
        self,
        directory: Path,
        tallies: Mapping[str, Tally],
        seed: int,
        is_shipped: Shipped = lambda _: False,
    ) -> None:
        """`tallies`: by host, what is told of its lines. Files that are `is_shipped` may go."""
        super().__init__("application")
        self.counts = dict.fromkeys(tallies, 0)
        self.rotations = 0
        self._tallies, self._directory, self._is_shipped = tallies, directory, is_shipped
        self._chance = random.Random(f"application {seed}")
        self._sizes: dict[Path, int] = {}
        self._unwatched: set[str] = set()
        self._old: defaultdict[tuple[str, str], deque[Path]] = defaultdict(deque)
        self._lock = threading.Lock()
        for host in tallies:
            self.folder(host).mkdir(parents=True)

    def folder(self, host: str) -> Path:
        return self._directory / host

    def sizes(self) -> dict[str, int]:
        """Of the files that are written to and have something, by path."""
        return {str(path): size for path, size in self._sizes.items() if size}

    def may_rotate(self, host: str, may: bool) -> None:
        """Whether anything may be renamed in this host's folder; lines are written anyhow."""
        with self._lock:
            if may:
                self._unwatched.discard(host)
            else:
                self._unwatched.add(host)

    def write_one(self, host: str) -> tuple[Path, int, int]:
        """One line more, once it has ended: its file, where it begins there, and where it ends."""
        path = self.folder(host) / f"{FILES[0]}.log"
        begins = self._sizes.get(path, 0)
        self._write(host, path, 1)
        return path, begins, self._sizes[path]

    def work(self) -> None:
        while not self._stop_asked.wait(_EVERY):
            host = self._chance.choice(sorted(self.counts))
            path = self.folder(host) / f"{self._chance.choice(FILES)}.log"
            self._write(host, path, self._chance.randint(1, _MOST))
            with self._lock:
                if self._sizes[path] >= _ROTATES_AT and host not in self._unwatched:
                    self._rotate(host, path)

    def _write(self, host: str, path: Path, count: int) -> None:
        begins = self.counts[host]
        filler = "x" * self._chance.randrange(60)
        texts = [
            f"{host} {path.stem} line {number} at {time.time_ns()} {filler}"
            for number in range(begins, begins + count)
        ]
        self._tallies[host].write(texts)
        self.counts[host] += count
        content = "".join(f"{each}\n" for each in texts).encode()
        with path.open("ab") as file:
            file.write(content)
        self._sizes[path] = self._sizes.get(path, 0) + len(content)

    def _rotate(self, host: str, path: Path) -> None:
        self.rotations += 1
        name = path.with_name(f"{path.stem}-{self.rotations}.log")
        path.rename(name)
        self._sizes[path] = 0
        old = self._old[host, path.stem]
        old.append(name)
        while len(old) > _KEPT and self._is_shipped(old[0]):
            old.popleft().unlink()


class ShippedFiles(Worker):
    """Which files the agents have had acknowledged to their ends, by what they say of them."""

    def __init__(self, agents: Callable[[], list[AgentProcess]]) -> None:
        super().__init__("shipped files")
        self._agents = agents
        self._shipped: dict[str, int] = {}  # by path, up to where

    def to_the_end(self, path: Path) -> bool:
        return self._shipped.get(str(path), -1) >= path.stat().st_size

    def work(self) -> None:
        while not self._stop_asked.wait(2.0):
            for agent in self._agents():
                status = agent.status()
                for each in status["files"] if status else ():
                    self._shipped[each["path"]] = each["acknowledged"]
