"""Which of an agent's open files are with its descriptor store, by which names, and keeping it so.

Rule 1: what has a handle is to be kept; what has none any more is given back, as a file that was
deleted takes room on the disk as long as anybody has it open.

Rule 2: the store is told of handles that were opened and closed, at each look and never of events;
of a handle that was opened and closed between two looks it hears nothing. Where there are more
files than handles, so that these come and go, it hears of a hundred a second, and of the rest
later.

Rule 3: a store has a limit, which is never exceeded. Where more files are open, those with unread
bytes come first, deleted ones before others, then those that were written last; that is weighed
once a second.

Rule 4: names say to the next process what each descriptor is.

    {journal}.file.{device}-{inode}                 a file whose source the journal knows
    {journal}.new.{device}-{inode}.{path, quoted}   one of which it was not clear yet what it is
    {journal}.events                                the queue of inotify
    {journal}.history                               the memory into which that is read

`journal` is the agent's id: what was kept for another data directory is nobody's. A file has one
name however many handles there are of it. All names together stand in one variable of the next
process's environment, which the kernel lets have 128 KiB: `BUDGET` keeps within that.

A crash loses what was not told yet: files that were opened within the last look.
"""

import logging
import os
from collections.abc import Iterable
from enum import StrEnum
from itertools import islice
from typing import Final, Protocol
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec

from agent.kept.store import DescriptorStore
from agent.runs import SourceId

BUDGET: Final = 100_000
_LONGEST: Final = 255
_JOURNAL: Final = 12  # of the agent's id: enough to tell two data directories of a host apart

Identity = tuple[int, int]
"""Device and inode."""


class KeptKind(StrEnum):
    """What a kept descriptor is of."""

    FILE = "file"
    NEW = "new"
    EVENTS = "events"
    HISTORY = "history"


class KeptName(msgspec.Struct, frozen=True):
    """What a name says. `path` only of what is new, and not if it is very long."""

    kind: KeptKind
    path: str = ""


def file_name(agent_id: str, identity: Identity, source: SourceId) -> str:
    kind = KeptKind.FILE if source else KeptKind.NEW
    return f"{agent_id[:_JOURNAL]}.{kind}.{identity[0]:x}-{identity[1]:x}"


def with_path(name: str, path: str) -> str:
    """Of what is new: as it was called when it was met."""
    longer = f"{name}.{quote_from_bytes(os.fsencode(path), safe='/')}"
    return longer if len(longer) <= _LONGEST else name


def own_name(agent_id: str, kind: KeptKind) -> str:
    """Of what is no file, and of which there is one."""
    return f"{agent_id[:_JOURNAL]}.{kind}"


def read_name(name: str, agent_id: str) -> KeptName | None:
    """None if it is not of this agent's journal, or of nobody's."""
    journal, _, rest = name.partition(".")
    if journal != agent_id[:_JOURNAL]:
        return None
    kind, _, rest = rest.partition(".")
    _, _, path = rest.partition(".")
    try:
        return KeptName(KeptKind(kind), os.fsdecode(unquote_to_bytes(path)))
    except ValueError:
        return None


_MOST_A_LOOK: Final = 64
_MOST_A_SECOND: Final = 100.0  # once so many at once are used up
_MOST_AT_ONCE: Final = 2_000.0
_WEIGHED_EVERY: Final = 1.0
_NEW_SEEN_EVERY: Final = 0.25
_OWN: Final = 2  # places that are always free for what is no file
_SILENT_SECONDS: Final = 1.0  # after an error, before the store is told again

log = logging.getLogger(__name__)


class Open(Protocol):
    """Who has a file open."""

    @property
    def fd(self) -> int | None: ...

    @property
    def identity(self) -> Identity: ...

    @property
    def source(self) -> SourceId: ...

    @property
    def path(self) -> str: ...

    @property
    def idle_since(self) -> float: ...

    @property
    def unread(self) -> int: ...

    @property
    def nameless(self) -> bool: ...


class Keeping:
    """One thread's. Two handles of one file are one thing to keep."""

    def __init__(self, store: DescriptorStore, agent_id: str) -> None:
        self._store = store
        self.agent_id = agent_id
        self._open: dict[Identity, dict[Open, None]] = {}
        self._kept: dict[Identity, str] = {}
        self._name_bytes = 0  # of all names of what is kept
        self._changed: dict[Identity, None] = {}
        self._waiting: dict[Identity, None] = {}  # for which there is no room
        self._new: dict[Identity, None] = {}  # kept, and not known yet what they are
        self._refused: list[str] = []  # names of what is kept and nobody's
        self._own: dict[str, int] = {}  # what is no file, until it is kept
        self._weighed = self._looked_at_new = self._silent_until = float("-inf")
        self._said_trouble = False
        self._allowed, self._allowed_at = _MOST_AT_ONCE, float("inf")

    @property
    def most(self) -> int:
        """Files; the queue of events and the memory of it have places of their own."""
        return max(0, self._store.most - _OWN)

    @property
    def kept(self) -> int:
        """Files that are with the store. Any thread."""
        return len(self._kept)

    def opened(self, file: Open) -> None:
        if self._store.most:
            self._open.setdefault(file.identity, {})[file] = None
            self._changed[file.identity] = None

    def closed(self, file: Open) -> None:
        """Before its identity becomes another one."""
        holders = self._open.get(file.identity)
        if holders is None:
            return
        holders.pop(file, None)
        if holders:
            return
        del self._open[file.identity]
        if file.identity in self._kept:
            self._changed[file.identity] = None
        else:
            self._changed.pop(file.identity, None)
            self._waiting.pop(file.identity, None)

    def has_already(self, identity: Identity, name: str, *, new: bool) -> None:
        """It was handed over, and so is still with the store."""
        if identity in self._kept:
            self._refused.append(name)
            return
        self._kept[identity] = name
        self._name_bytes += len(name) + 1
        self._changed[identity] = None
        if new:
            self._new[identity] = None

    def refuse(self, names: Iterable[str]) -> None:
        """What was handed over and is of no use."""
        self._refused.extend(names)

    def has_own(self, kind: KeptKind, fd: int, left: str, *, is_same: bool) -> None:
        """What is no file, to be kept in the order in which it is told; -1 if there is none. `left`
        is the name of what was handed over, and `is_same` whether it is that."""
        if fd >= 0 and not is_same:
            self._own[own_name(self.agent_id, kind)] = fd
        if left and not is_same:
            self._refused.append(left)

    def flush(self, now: float) -> None:
        """Tells the store what has changed. At every look."""
        if not self._store.most or now < self._silent_until:
            return
        try:
            self._tell(now)
        except BlockingIOError:
            return  # it is told the next time
        except OSError as error:
            self._silent_until = now + _SILENT_SECONDS
            if not self._said_trouble:
                self._said_trouble = True
                log.warning("open files are not kept over a crash error=%s", error)

    def close(self) -> None:
        """What is kept stays so."""
        self._store.close()

    def _tell(self, now: float) -> None:
        while self._refused:  # before anything is kept under one of these names
            self._store.give_back(self._refused[-1])
            self._refused.pop()
        for name, fd in list(self._own.items()):
            self._store.keep(name, fd)
            del self._own[name]
        if now - self._looked_at_new >= _NEW_SEEN_EVERY:
            self._looked_at_new = now
            self._look_at_new()
        if self._waiting and now - self._weighed >= _WEIGHED_EVERY:
            self._weighed = now
            self._weigh()
        for identity in list(islice(self._changed, self._allowance(now))):
            self._bring_about(identity)
            self._changed.pop(identity, None)
            self._allowed -= 1

    def _allowance(self, now: float) -> int:
        earned = max(0.0, now - self._allowed_at) * _MOST_A_SECOND
        self._allowed, self._allowed_at = min(_MOST_AT_ONCE, self._allowed + earned), now
        return min(_MOST_A_LOOK, int(self._allowed))

    def _look_at_new(self) -> None:
        """A file that has become a source is called otherwise."""
        for identity in self._new:
            if any(each.source for each in self._open.get(identity, ())):
                self._changed[identity] = None

    def _bring_about(self, identity: Identity) -> None:
        """That it is kept if it is open, under the name that it has now."""
        holders = self._open.get(identity, {})
        source = next((each.source for each in holders if each.source), SourceId(""))
        kept = self._kept.get(identity)
        wanted = file_name(self.agent_id, identity, source)
        if kept is not None and (not holders or not kept.startswith(wanted)):
            # One file is not kept under two names: it must be given back first.
            self._store.give_back(kept)
            self._forget(identity, kept)
            kept = None
        if not holders:
            self._waiting.pop(identity, None)
        elif kept is None:
            self._keep(identity, next(iter(holders)), wanted, new=not source)

    def _keep(self, identity: Identity, file: Open, name: str, *, new: bool) -> None:
        if new and self._name_bytes + len(longer := with_path(name, file.path)) < BUDGET // 2:
            name = longer
        full = len(self._kept) >= self.most or self._name_bytes + len(name) >= BUDGET
        if full or file.fd is None:
            self._waiting[identity] = None
            return
        self._store.keep(name, file.fd)
        self._waiting.pop(identity, None)
        self._kept[identity] = name
        self._name_bytes += len(name) + 1
        if new:
            self._new[identity] = None

    def _forget(self, identity: Identity, name: str) -> None:
        del self._kept[identity]
        self._new.pop(identity, None)
        self._name_bytes -= len(name) + 1

    def _weigh(self) -> None:
        """What matters more than something that is kept takes its place."""
        room = self.most - len(self._kept)
        self._waiting = {each: None for each in self._waiting if each in self._open}
        first = sorted(self._waiting, key=self._weight, reverse=True)[:_MOST_A_LOOK]
        for identity, least in zip(first, sorted(self._kept, key=self._weight), strict=False):
            if room <= 0:
                if self._weight(identity) <= self._weight(least):
                    return
                name = self._kept[least]
                self._store.give_back(name)
                self._forget(least, name)
                self._waiting[least] = None
            room -= 1
            self._changed[identity] = None

    def _weight(self, identity: Identity) -> tuple[bool, bool, float]:
        files = self._open.get(identity, ())
        unread = any(each.unread for each in files)
        nameless = any(each.nameless for each in files)
        written = max((each.idle_since for each in files), default=float("-inf"))
        return (nameless and unread), unread, written
