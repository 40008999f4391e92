"""`Files` together with what a journal would keep of it, turned by hand: time is passed in."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from agent.accounting.runs import KnownSource, SourceId
from agent.configuration.config import AgentLimits, HoldDeleted
from agent.configuration.file_inputs import FileInput
from agent.files.files import Files
from agent.files.happenings import (
    Appeared,
    Ended,
    EndUnseen,
    Forgettable,
    Grown,
    Happening,
    Lost,
    NotWatched,
    Remembered,
    Renamed,
)
from agent.history.blind_times import Looked, Unwatched
from agent.history.position import HistoryPosition
from agent.open_files import descriptor_store as agents
from agent.open_files.descriptor_store import HandedOver
from agent.open_files.kept_files import Keeping
from agent.open_files.opening import Opening
from agent.recognition.compressed import has_compressed_name
from agent.recognition.followed import Followed
from penstock.up.descriptor_store import ProgramDescriptors

Kind = TypeVar("Kind")


class JournalledFiles:
    """Reads, remembers what was read, and starts again as after a crash."""

    def __init__(
        self,
        *inputs: FileInput,
        open_files: int = 100,
        hold: HoldDeleted | None = None,
        scan_interval: float = 5.0,
        events: bool = True,
        wall: float | None = None,
        boot: Callable[[], float] | None = None,
        store: ProgramDescriptors | None = None,
        opening: Opening | None = None,
    ) -> None:
        self.inputs: Sequence[FileInput] = inputs
        self.journal: dict[SourceId, KnownSource] = {}
        self.seen: set[str] | None = None
        self.since: dict[str, int] = {}
        self.archives_since: dict[str, int] = {}
        self.looked: dict[str, Looked] = {}
        self.reached: HistoryPosition | None = None
        self.positions = 0  # that were written down
        self.said: list[Happening] = []
        self.read: list[tuple[SourceId, int, bytes]] = []
        self.now = 1000.0
        self._began_millis = time.time_ns() // 1_000_000
        self.wall = wall  # the clock, if it is not to be believed
        self._numbers = count(1)
        self._limits = AgentLimits(open_files=open_files)
        self._hold = hold or HoldDeleted()
        self._scan_interval = scan_interval
        self._events = events
        self.away = 0.0  # seconds in which nobody looked, as the next process sees it
        self._boot = boot or (lambda: time.monotonic() + self.away)
        self._store = store
        self.opening = opening
        self.forgotten_before = -1
        self.torn = False
        self.agent_id = "0123456789ABCDEFGHIJ"
        self.files = self._start()

    def _start(self) -> Files:
        store, keeping = self._store, None
        if store is not None:
            store.listen_to(os.getpid())
            keeping = Keeping(agents.DescriptorStore(store.environment), self.agent_id)
        return Files(
            self.inputs,
            list(self.journal.values()),
            lambda: SourceId(f"s{next(self._numbers)}"),
            self._limits,
            self._hold,
            self._scan_interval,
            clock=lambda: self.now,
            wall=lambda: time.time() + self.away if self.wall is None else self.wall,
            seen=self.seen,
            since=self.since,
            archives_since=self.archives_since,
            looked=self.looked,
            forgotten_before=self.forgotten_before,
            torn=self.torn,
            reached=self.reached,
            events=self._events,
            boot=self._boot,
            keeping=keeping,
            left=[HandedOver(name, os.dup(fd)) for name, fd in store.kept().items()]
            if store is not None
            else (),
            opening=self.opening,
            worked=lambda: 0.0,  # or the next listing would come later on a busy machine
        )

    def restart(self) -> None:
        self.files.close()
        self.restart_closed()

    def crash(self) -> None:
        """What it has open is closed, and nobody is told."""
        self.files.close()

    def restart_closed(self) -> None:
        self.seen = {each.name for each in self.inputs}
        began = {each.name: self._began_millis for each in self.inputs}
        self.since = began | self.since
        self.archives_since = began | self.archives_since
        self.files = self._start()

    def look(self, seconds: float = 0.05) -> list[Happening]:
        self.now += seconds
        if self.wall is not None:
            self.wall += seconds
        said = self.files.look(self.now)
        for each in said:
            self._write_down(each)
        self.said += said
        for at in self.files.looked({}):
            self.looked[at.input] = at.after(self.looked.get(at.input))
        self.files.looked_was_written()
        if (reached := self.files.history()) is not None:
            self.reached = reached
            self.positions += 1
            self.files.history_was_written(reached)
        self.files.keep(self.now)
        return said

    def _write_down(self, happening: Happening) -> None:
        match happening:
            case Appeared(followed) | Renamed(followed) | Grown(followed) | Ended(followed):
                self.journal[followed.source] = self.files.snapshot_of(followed)
            case EndUnseen(followed):
                self.journal[followed.source] = self.files.snapshot_of(followed)
            case Lost(followed, position, lost):
                followed.progress = replace(followed.progress, position=position + lost)
                known = self.journal[followed.source]
                self.journal[followed.source] = replace(known, progress=followed.progress)
            case Remembered(known):
                self.journal[known.id] = known
            case Forgettable(source):
                self.journal.pop(source, None)

    def read_some(self, most: int = 1 << 20, files: int = 1 << 20) -> bytes:
        data = [self.read_one(each, most) for each in self.files.ready()[:files]]
        return b"".join(data)

    def read_one(self, followed: Followed, most: int = 1 << 20) -> bytes:
        position = followed.progress.position
        data = followed.read(most)
        if data:
            self.read.append((followed.source, position, data))
            followed.progress = replace(followed.progress, position=position + len(data))
            known = self.journal[followed.source]
            self.journal[followed.source] = replace(
                known,
                progress=replace(followed.progress, mark=followed.mark),
                size=known.size
                if has_compressed_name(known.path)
                else max(known.size, followed.progress.position),
            )
        return data

    def turn(self, seconds: float = 0.05) -> bytes:
        """A look, and everything that is there."""
        self.look(seconds)
        return self.read_some()

    def of(self, kind: type[Kind]) -> Iterator[Kind]:
        return (each for each in self.said if isinstance(each, kind))

    @property
    def text(self) -> bytes:
        return b"".join(data for _, _, data in self.read)

    @property
    def unwatched(self) -> list[Unwatched]:
        """All that nobody can vouch for."""
        said = [each for each in self.said if isinstance(each, EndUnseen | NotWatched)]
        return [each.unwatched for each in said]

    @property
    def lost(self) -> int:
        return sum(each.bytes for each in self.said if isinstance(each, Lost))

    def close(self) -> None:
        self.files.close()


class LogFolder:
    """A test's own folder, and who follows what is written there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path / "app.log"
        self.followers: list[JournalledFiles] = []

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def follow(self, *patterns: str, **options: object) -> JournalledFiles:
        """Patterns are below the folder; options are those of the input, or of following."""
        paths = tuple(str(self / each) for each in patterns or ("app.log*",))
        names = options.keys() & set(FileInput.__struct_fields__)
        own = {name: options.pop(name) for name in names}
        of = FileInput("in", "t", paths, **own)  # type: ignore[arg-type]
        self.followers.append(JournalledFiles(of, **options))  # type: ignore[arg-type]
        return self.followers[-1]

    def close(self) -> None:
        for each in self.followers:
            each.close()


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def settle(files: JournalledFiles) -> bytes:
    return b"".join(files.turn(seconds) for seconds in (0.05, 6.0, 3.0, 6.0, 16.0, 70.0, 70.0))


def tick() -> None:
    """Until the clock of the file system has moved on, and a look at a folder is sure."""
    time.sleep(0.03)


def rest(files: JournalledFiles, seconds: float = 0.05) -> None:
    """Everything was read, and every folder looked at for sure."""
    for _ in range(3):
        tick()
        files.turn(seconds)


def turns(files: JournalledFiles, count: int = 6) -> None:
    for _ in range(count):
        files.turn(0.3)


def of_folders(files: JournalledFiles) -> list[Unwatched]:
    return [each for each in files.unwatched if not each.source]


def of_sources(files: JournalledFiles) -> list[Unwatched]:
    return [each for each in files.unwatched if each.source]


def written_at_once(path: Path) -> None:
    """As by one write that made it."""
    before = path.stat().st_mtime_ns - 1_000_000_000
    os.utime(path, ns=(before, before))


def written_for(seconds: float, *paths: Path) -> None:
    """As its own times say, from now on."""
    for path in paths:
        os.utime(path, (time.time() + seconds,) * 2)


def kept_files(store: ProgramDescriptors) -> list[str]:
    return [name for name in store.kept() if not name.endswith((".events", ".history"))]
