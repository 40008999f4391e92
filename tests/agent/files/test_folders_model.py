"""Folders that are made, moved and removed with files in them, at any moment, also amid a look.

Whatever happens, each line that lay under a name that is meant is read, or it is said of its
folder, and of that time, that nobody knows. What came to a folder that was not watched yet, and
went from it, leaves no trace; nor does what went from one that was away for a moment, if another
file has its name there.
"""

import random
import shutil
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.configuration.file_inputs import FileInput
from agent.files.happenings import Lost, Unreadable
from agent.history.blind_times import Traces
from penstock.up.descriptor_store import ProgramDescriptors
from tests.agent.files.journalled_files import JournalledFiles

FOLDERS = ["a", "b", "a/c", "b/c"]
NAMES = ["app.log", "app.log.1", "other"]
PATTERNS = ["*/app.log*", "*/*/app.log*"]
WATCHED = -1


class Killed(Exception):
    """Amid a look."""


@dataclass(eq=False)
class File:
    """Its lines, and when they were written; those that have been under a name that is meant are
    `owed`. `places` are these names, until it `ended` there."""

    path: Path
    lines: dict[str, float] = field(default_factory=dict)
    places: set[Path] = field(default_factory=set)
    owed: set[str] = field(default_factory=set)
    ended: float = float("inf")
    unwatched: bool = False  # it has gone from a folder that nobody watched yet


class World:
    def __init__(self, root: Path, store: ProgramDescriptors | None) -> None:
        self.logs, self.out = root / "logs", root / "out"
        self.logs.mkdir()
        self.out.mkdir()
        self.files: list[File] = []
        self.there: dict[Path, File] = {}
        self.looks = 0
        self.made: dict[Path, int] = {}  # folders that are there: since which look, or WATCHED
        self.aside: list[Path] = []
        self.count = 0
        self._answers, self._amid = 0, ("", 0)
        paths = tuple(str(self.logs / each) for each in PATTERNS)
        self.is_down = self.is_looking = False
        self.followed = JournalledFiles(FileInput("in", "t", paths), boot=self.boot, store=store)
        for number in range(len(FOLDERS)):
            self.mkdir(number)
        self.look(0)

    def boot(self) -> float:
        if self.is_looking:
            self._answers -= 1
            if not self._answers:
                self.do(*self._amid)
        return time.monotonic()

    def do(self, action: str, number: int) -> None:
        getattr(self, action)(number)

    def amid(self, number: int) -> None:
        if self._answers <= 0:
            self._amid = AMID[number % len(AMID)], number // 7
            self._answers = 1 + number % 6

    # What is there

    def mkdir(self, number: int) -> None:
        folder = self.logs / FOLDERS[number % 4]
        if not folder.exists() and folder.parent.exists():
            folder.mkdir()
            self.made[folder] = self.looks

    def write(self, number: int) -> None:
        folder, name = self.logs / FOLDERS[number % 4], NAMES[number // 4 % 3]
        for each in (folder.parent, folder):
            if not each.exists():
                each.mkdir()
                self.made[each] = self.looks
        at = folder / name
        if at not in self.there:
            self.there[at] = File(at)
            self.files.append(self.there[at])
        self.count += 1
        line = f"{self.count:07}\n"
        with at.open("a") as opened:
            opened.write(line)
        self.there[at].lines[line] = time.time() * 1000
        self._placed(self.there[at])

    def _placed(self, file: File) -> None:
        if any(file.path.match(str(self.logs / each)) for each in PATTERNS):
            file.places.add(file.path)
            file.owed |= file.lines.keys()
            file.ended = float("inf")

    def _leaves(self, file: File) -> None:
        """Its path, which it has had until now. A folder that it leaves elsewhere stays there."""
        del self.there[file.path]
        self.aside = [each for each in self.aside if not file.path.is_relative_to(each)]
        if file.path in file.places:
            file.ended = time.time() * 1000
            if self.made[file.path.parent] != WATCHED:
                file.unwatched = True

    def delete(self, number: int) -> None:
        if self.there:
            path = sorted(self.there)[number % len(self.there)]
            path.unlink()
            self._leaves(self.there[path])

    def rename(self, number: int) -> None:
        if not self.there or not self.made:
            return
        path = sorted(self.there)[number % len(self.there)]
        folder = sorted(self.made)[number // 3 % len(self.made)]
        to = folder / NAMES[number // 5 % 3]
        if to not in self.there:
            path.rename(to)
            self._moved(path, to)

    def _moved(self, path: Path, to: Path) -> None:
        file = self.there[path]
        self._leaves(file)
        file.path = to
        self.there[to] = file
        self._placed(file)

    def rmtree(self, number: int) -> None:
        if self.made:
            folder = sorted(self.made)[number % len(self.made)]
            shutil.rmtree(folder)
            for path in [each for each in self.there if each.is_relative_to(folder)]:
                self._leaves(self.there[path])
            self._drop(folder)

    def _drop(self, folder: Path) -> None:
        for each in [each for each in self.made if each.is_relative_to(folder)]:
            del self.made[each]

    def move(self, number: int) -> None:
        """Elsewhere in `logs`, or out of it."""
        if not self.made:
            return
        folder = sorted(self.made)[number % len(self.made)]
        to = self.logs / FOLDERS[number // 3 % 4]
        if number % 2 or to.exists() or not to.parent.exists() or to.is_relative_to(folder):
            self.count += 1
            to = self.out / str(self.count)
            self.aside.append(to)
        self._move(folder, to)

    def back(self, number: int) -> None:
        to = self.logs / FOLDERS[number % 4]
        if self.aside and not to.exists() and to.parent.exists():
            self._move(self.aside.pop(), to)

    def _move(self, folder: Path, to: Path) -> None:
        folder.rename(to)
        for path in [each for each in self.there if each.is_relative_to(folder)]:
            self._moved(path, to / path.relative_to(folder))
        self._drop(folder)
        if to.is_relative_to(self.logs):
            self.made |= {each: self.looks for each in (to, *to.rglob("*")) if each.is_dir()}

    # The agent

    def look(self, _number: int, seconds: float = 0.05) -> None:
        """What is made from now on is watched by the next one."""
        if self.is_down:
            return
        self.looks += 1
        self.is_looking = True
        try:
            self.followed.look(seconds)
        except Killed:
            self.followed.crash()
            return
        finally:
            self.is_looking = False
        for folder, made in self.made.items():
            if made < self.looks:
                self.made[folder] = WATCHED

    def look_later(self, _number: int) -> None:
        self.look(0, 6.0)

    def read(self, _number: int) -> None:
        if not self.is_down:
            self.followed.read_some()

    def kill(self, _number: int) -> None:
        """Also amid a look, of which nothing was written down then."""
        if self.is_down:
            return
        self.is_down = True
        if self.is_looking:
            raise Killed
        self.followed.crash()

    def start(self, _number: int) -> None:
        if self.is_down:
            self.is_down = False
            self.followed.restart_closed()

    def settle(self) -> None:
        self._answers = 0
        self.start(0)
        for seconds in (0.05, 0.05, 6.0, 3.0, 3.0, 6.0, 6.0, 70.0, 70.0):
            self.look(0, seconds)
            self.followed.read_some()

    def check(self) -> None:
        read = Counter(self.followed.text.decode().splitlines(keepends=True))
        assert not read or max(read.values()) == 1
        for file in self.files:
            if not file.unwatched:
                for line in file.owed - read.keys():
                    assert self.is_said(file, line), (line, file, self.followed.said)

    def is_said(self, file: File, line: str) -> bool:
        """Of that time, of where it was, or of a folder above."""
        above = (folder for place in file.places for folder in place.parents)
        paths = {str(each) for each in (*file.places, *above)}
        if any(each.path == str(file.path) for each in self.followed.of(Unreadable)):
            return True  # the rules of links refuse it after a restart
        return any(each.followed.path in paths for each in self.followed.of(Lost)) or any(
            each.path in paths
            and file.lines[line] <= each.to_millis + 1
            and each.from_millis <= file.ended + 1
            for each in self.followed.unwatched
            if each.traces is not Traces.UNCHANGED
        )

    def close(self) -> None:
        if not self.is_down:
            self.followed.close()


OFTEN = {"write": 8, "mkdir": 4, "look": 8, "read": 5, "amid": 8}
RARE = {
    "rename": 4,
    "delete": 3,
    "rmtree": 2,
    "move": 4,
    "back": 2,
    "look_later": 2,
    "kill": 2,
    "start": 4,
}
ACTIONS = [each for each, n in (OFTEN | RARE).items() for _ in range(n)]
AMID = ["write", "write", "mkdir", "rename", "delete", "rmtree", "move", "back", "kill"]


@settings(max_examples=settings().max_examples * 3)
@given(seed=st.integers(0, (1 << 64) - 1))
def test_every_line_is_read_or_said(seed: int) -> None:
    chosen = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, ProgramDescriptors(100) as store:
        world = World(Path(folder), store if chosen.random() < 0.5 else None)
        try:
            for _ in range(chosen.randrange(10, 60)):
                world.do(chosen.choice(ACTIONS), chosen.randrange(1000))
            world.settle()
            world.check()
        finally:
            world.close()
