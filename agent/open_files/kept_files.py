"""Mirrors the agent's open files into the descriptor store.

Rule 1: open files are kept; closed ones are given back, since a deleted file takes disk space as
long as any process has it open.

Rule 2: the store is updated at each look, not at each open and close; a file that was opened and
closed between two looks is not sent at all. If there are more files than descriptors, so that files
are opened and closed all the time, at most a hundred changes are sent a second.

Rule 3: the store's limit is never exceeded. If more files are open, those with unread bytes come
first, deleted ones before others, then those written last. This is decided once a second.

Rule 4: names tell the next process what each descriptor is.

    {journal}.file.{device}-{inode}                 a file whose source the journal has
    {journal}.new.{device}-{inode}.{path, quoted}   a file that was not identified yet
    {journal}.events                                the queue of inotify
    {journal}.history                               the memory of its events

`journal` is the beginning of the agent's id: descriptors of another data directory are not used. A
file has one name, even if it is open several times. All names together must fit into one
environment variable of the next process, for which the kernel allows 128 KiB: see `BUDGET`.

A crash loses what was not sent yet: files opened since the last look.
"""

import logging
import os
from collections.abc import Iterable
from enum import StrEnum
from itertools import islice
from typing import Final, Protocol
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec

from agent.accounting.runs import SourceId
from agent.open_files.descriptor_store import DescriptorStore

BUDGET: Final = 100_000
_LONGEST: Final = 255
_JOURNAL: Final = 12  # characters of the agent's id, enough to distinguish directories of a host

Identity = tuple[int, int]
"""Device and inode."""


class KeptKind(StrEnum):
    """The kinds of kept descriptors."""

    FILE = "file"
    NEW = "new"
    EVENTS = "events"
    HISTORY = "history"


class KeptName(msgspec.Struct, frozen=True):
    """A parsed name. Only new files have a `path`, unless it is very long."""

    kind: KeptKind
    path: str = ""


def file_name(agent_id: str, identity: Identity, source: SourceId) -> str:
    kind = KeptKind.FILE if source else KeptKind.NEW
    return f"{agent_id[:_JOURNAL]}.{kind}.{identity[0]:x}-{identity[1]:x}"


def with_path(name: str, path: str) -> str:
    """Adds the path to the name of a new file, if it is not too long."""
    long_name = f"{name}.{quote_from_bytes(os.fsencode(path), safe='/')}"
    return long_name if len(long_name) <= _LONGEST else name


def own_name(agent_id: str, kind: KeptKind) -> str:
    """The name of the queue or memory of events."""
    return f"{agent_id[:_JOURNAL]}.{kind}"


def read_name(name: str, agent_id: str) -> KeptName | None:
    """Parses a name; None if it is invalid or another journal's."""
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
_MOST_A_SECOND: Final = 100.0  # after an initial burst
_MOST_AT_ONCE: Final = 2_000.0
_WEIGHED_EVERY: Final = 1.0
_NEW_SEEN_EVERY: Final = 0.25
_OWN: Final = 2  # places reserved for the queue and memory of events
_SILENT_SECONDS: Final = 1.0  # pause after an error of the store

log = logging.getLogger(__name__)


class Open(Protocol):
    """An object that holds a file open, with the properties that name it in the store."""

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
    """Decides what the store keeps. Belongs to one thread. A file is kept once, however often it is
    open."""

    def __init__(self, store: DescriptorStore, agent_id: str) -> None:
        self._store = store
        self.agent_id = agent_id
        self._open: dict[Identity, dict[Open, None]] = {}
        self._kept: dict[Identity, str] = {}
        self._name_bytes = 0  # of all kept names
        self._changed: dict[Identity, None] = {}
        self._waiting: dict[Identity, None] = {}  # no room in the store
        self._new: dict[Identity, None] = {}  # kept before they were identified
        self._refused: list[str] = []  # kept names to give back
        self._own: dict[str, int] = {}  # queue and memory, until they are kept
        self._weighed = self._looked_at_new = self._silent_until = float("-inf")
        self._said_trouble = False
        self._allowed, self._allowed_at = _MOST_AT_ONCE, float("inf")

    @property
    def most(self) -> int:
        """The number of files to keep; the queue and memory of events have reserved places."""
        return max(0, self._store.most - _OWN)

    @property
    def kept(self) -> int:
        """The number of kept files. Any thread."""
        return len(self._kept)

    def opened(self, file: Open) -> None:
        if self._store.most:
            self._open.setdefault(file.identity, {})[file] = None
            self._changed[file.identity] = None

    def closed(self, file: Open) -> None:
        """Notes that a file was closed, before its holder's identity changes."""
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

    def note_kept(self, identity: Identity, name: str, *, new: bool) -> None:
        """Notes that a file was handed over, and is therefore still in the store."""
        if identity in self._kept:
            self._refused.append(name)
            return
        self._kept[identity] = name
        self._name_bytes += len(name) + 1
        self._changed[identity] = None
        if new:
            self._new[identity] = None

    def refuse(self, names: Iterable[str]) -> None:
        """Gives back descriptors that were handed over but are not needed."""
        self._refused.extend(names)

    def keep_own(self, kind: KeptKind, fd: int, left: str, *, is_same: bool) -> None:
        """Keeps the queue or the memory of events in the store; `fd` is -1 if there is none. `left`
        is the name of the descriptor that was handed over; `is_same` says whether that one is still
        in use."""
        if fd >= 0 and not is_same:
            self._own[own_name(self.agent_id, kind)] = fd
        if left and not is_same:
            self._refused.append(left)

    def flush(self, now: float) -> None:
        """Sends changes to the store. Call it at every look."""
        if not self._store.most or now < self._silent_until:
            return
        try:
            self._tell(now)
        except BlockingIOError:
            return  # it is sent at the next look
        except OSError as error:
            self._silent_until = now + _SILENT_SECONDS
            if not self._said_trouble:
                self._said_trouble = True
                log.warning("cannot keep files open across a crash error=%s", error)

    def close(self) -> None:
        """Closes the connection; the store keeps its descriptors."""
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
            self._update_kept(identity)
            self._changed.pop(identity, None)
            self._allowed -= 1

    def _allowance(self, now: float) -> int:
        earned_sends = max(0.0, now - self._allowed_at) * _MOST_A_SECOND
        self._allowed, self._allowed_at = min(_MOST_AT_ONCE, self._allowed + earned_sends), now
        return min(_MOST_A_LOOK, int(self._allowed))

    def _look_at_new(self) -> None:
        """Schedules new files that have become sources, whose names change."""
        for identity in self._new:
            if any(holder.source for holder in self._open.get(identity, ())):
                self._changed[identity] = None

    def _update_kept(self, identity: Identity) -> None:
        """Keeps a file under its current name if it is open, otherwise gives it back."""
        holders = self._open.get(identity, {})
        source = next((holder.source for holder in holders if holder.source), SourceId(""))
        kept_name = self._kept.get(identity)
        wanted_name = file_name(self.agent_id, identity, source)
        if kept_name is not None and (not holders or not kept_name.startswith(wanted_name)):
            # A file is not kept under two names, so the old one is given back first.
            self._store.give_back(kept_name)
            self._forget(identity, kept_name)
            kept_name = None
        if not holders:
            self._waiting.pop(identity, None)
        elif kept_name is None:
            self._keep(identity, next(iter(holders)), wanted_name, new=not source)

    def _keep(self, identity: Identity, file: Open, name: str, *, new: bool) -> None:
        if new and self._name_bytes + len(long_name := with_path(name, file.path)) < BUDGET // 2:
            name = long_name
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
        """Replaces kept files by waiting ones of higher priority."""
        room = self.most - len(self._kept)
        self._waiting = {identity: None for identity in self._waiting if identity in self._open}
        heaviest = sorted(self._waiting, key=self._weight, reverse=True)[:_MOST_A_LOOK]
        for identity, lightest in zip(heaviest, sorted(self._kept, key=self._weight), strict=False):
            if room <= 0:
                if self._weight(identity) <= self._weight(lightest):
                    return
                name = self._kept[lightest]
                self._store.give_back(name)
                self._forget(lightest, name)
                self._waiting[lightest] = None
            room -= 1
            self._changed[identity] = None

    def _weight(self, identity: Identity) -> tuple[bool, bool, float]:
        files = self._open.get(identity, ())
        has_unread = any(file.unread for file in files)
        is_nameless = any(file.nameless for file in files)
        written_at = max((file.idle_since for file in files), default=float("-inf"))
        return (is_nameless and has_unread), has_unread, written_at
