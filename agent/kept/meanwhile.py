"""What came and went in watched folders while no agent ran, from the queue that outlived it. Pure.

The kernel's queue goes on collecting while nobody reads it. A file that came, was renamed and went
is followed through it by its names, across folders where both are watched; of contents and inodes
it says nothing.

What was there before, and went, was the earlier agent's: `departed` are its names as that agent
last knew them. What came and went was nobody's: `unseen` are all names that it had. What came and
is still there is `there`: who looks only for a name that it had before does not find it.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

MOVED_FROM: Final = 0x40
MOVED_TO: Final = 0x80
CREATE: Final = 0x100
DELETE: Final = 0x200
OVERFLOW: Final = 0x4000
IS_FOLDER: Final = 0x40000000


class Event(NamedTuple):
    """As inotify has it: in which watched folder, what, with which other one, of which name."""

    watch: int
    mask: int
    cookie: int
    name: str


class There(NamedTuple):
    """Something new: a name that it had, and where it is now; mostly the same."""

    name: str
    watch: int
    name_now: str


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """Of one folder. Unless it is `complete`, nothing is known, and the rest is empty."""

    complete: bool = False
    came: frozenset[str] = frozenset()
    went: frozenset[str] = frozenset()
    departed: frozenset[str] = frozenset()
    unseen: frozenset[str] = frozenset()
    unseen_folders: frozenset[str] = frozenset()  # what was in them nobody knows
    there: frozenset[There] = frozenset()


NOTHING_KNOWN: Final = Meanwhile()


class _File:
    """One file or folder, by the names that it had: (watch, name)."""

    __slots__ = ("is_folder", "names", "new")

    def __init__(self, watch: int, name: str, *, new: bool, is_folder: bool) -> None:
        self.names = [(watch, name)]
        self.new = new
        self.is_folder = is_folder


@dataclass(slots=True)
class _Folder:
    came: set[str] = field(default_factory=set)
    went: set[str] = field(default_factory=set)
    departed: set[str] = field(default_factory=set)
    unseen: set[str] = field(default_factory=set)
    unseen_folders: set[str] = field(default_factory=set)
    there: set[There] = field(default_factory=set)


class Queue:
    """All that was collected, for the watches that were there all the time."""

    def __init__(self, watches: Collection[int], events: Iterable[Event]) -> None:
        self._folders = {watch: _Folder() for watch in watches}
        self._there: dict[tuple[int, str], _File] = {}
        self._moving: dict[int, _File] = {}
        self._overflowed = False
        for event in events:
            self._take(event)
        for file in self._moving.values():  # to where nobody watched
            self._gone(file)
        for at, file in self._there.items():
            for watch, name in file.names if file.new else ():
                if watch in self._folders:
                    self._folders[watch].there.add(There(name, *at))

    def of(self, watch: int) -> Meanwhile:
        found = self._folders.get(watch)
        if found is None or self._overflowed:
            return NOTHING_KNOWN
        return Meanwhile(
            complete=True,
            came=frozenset(found.came),
            went=frozenset(found.went),
            departed=frozenset(found.departed),
            unseen=frozenset(found.unseen),
            unseen_folders=frozenset(found.unseen_folders),
            there=frozenset(found.there),
        )

    def _take(self, event: Event) -> None:
        at = event.watch, event.name
        is_folder = bool(event.mask & IS_FOLDER)
        folder = self._folders.get(event.watch, _Folder())
        if event.mask & OVERFLOW:
            self._overflowed = True
        elif event.mask & (CREATE | MOVED_TO):
            folder.came.add(event.name)
            if (replaced := self._there.pop(at, None)) is not None:
                self._gone(replaced)
            moved = self._moving.pop(event.cookie, None) if event.mask & MOVED_TO else None
            if moved is None:
                moved = _File(*at, new=True, is_folder=is_folder)
            else:
                moved.names.append(at)
            self._there[at] = moved
        elif event.mask & (DELETE | MOVED_FROM):
            folder.went.add(event.name)
            file = self._there.pop(at, None) or _File(*at, new=False, is_folder=is_folder)
            if event.mask & DELETE:
                self._gone(file)
            else:
                self._moving[event.cookie] = file

    def _gone(self, file: _File) -> None:
        if not file.new:
            watch, name = file.names[0]
            if watch in self._folders and not file.is_folder:
                self._folders[watch].departed.add(name)
            return
        for watch, name in file.names:
            folder = self._folders.get(watch)
            if folder is not None:
                (folder.unseen_folders if file.is_folder else folder.unseen).add(name)
