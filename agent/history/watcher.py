"""Watches files and folders with inotify. The only module that uses it.

A folder is watched for names that come and go. A file is watched only while it is idle, for one
event, so a busy file costs none. The watch is set through the open descriptor, so it is on that
file even if its name now leads to another one. If something cannot be watched, `watch_…` returns
the reason, and the caller polls.

When a watch is given up, because its folder is gone or was replaced, events still in the queue are
processed as before; then `names` gets an event that the path no longer is that folder's.

The queue and the memory of its events outlive the process (`memory`). A successor replays them, and
gets the same result, whichever process has read them.

On network file systems other hosts write as well, without events here, so nothing is watched there.
"""

import errno
import os
import select
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Final, NamedTuple

from inotify_simple import INotify, flags

from agent.history.memory import EventMemory, FolderNote, LastLook, NoteKind, RawEvent
from agent.history.name_events import ANY_NAME, IGNORED, Event
from agent.history.position import HistoryPosition
from agent.open_files.paths import below

_FOLDER: Final = ANY_NAME | flags.DELETE_SELF | flags.MOVE_SELF | flags.ONLYDIR
_GONE: Final = flags.DELETE_SELF | flags.MOVE_SELF | flags.UNMOUNT | flags.IGNORED
_REASONS: Final = {
    errno.ENOSPC: "no inotify watches left (sysctl fs.inotify.max_user_watches)",
    errno.EMFILE: "no inotify instances left (sysctl fs.inotify.max_user_instances)",
}
_QUEUE: Final = "anon_inode:inotify"

_FROM_ELSEWHERE: Final = {
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "9p", "afs", "lustre", "gpfs", "beegfs"),
    *("glusterfs", "virtiofs", "ncpfs", "ocfs2", "gfs2"),
}


class Mounts:
    """The file systems of this host. Reads the table again for an unknown device."""

    def __init__(self, table: Path = Path("/proc/self/mountinfo")) -> None:
        self._table = table
        self._types: dict[int, str] = {}

    def without_events(self, device: int) -> str:
        """The type of a file system without reliable events; empty if it has them."""
        if device not in self._types:
            self._types[device] = ""
            self._read()
        kind = self._types[device]
        return kind if kind in _FROM_ELSEWHERE or kind.startswith("fuse.") else ""

    def _read(self) -> None:
        try:
            text = self._table.read_text(errors="surrogateescape")
        except OSError:
            return
        for line in text.splitlines():
            mount, _, source = line.partition(" - ")
            major, _, minor = mount.split()[2].partition(":")
            self._types[os.makedev(int(major), int(minor))] = source.split()[0]


class NewlyWatched(NamedTuple):
    """The device and inode of a newly watched folder. `instead`: another folder was watched at that
    path and still exists, for example behind a switched link, which the kernel does not report."""

    identity: tuple[int, int]
    instead: bool


class LeftHistory(NamedTuple):
    """The descriptors of an earlier process's queue and memory."""

    queue: int
    memory: int


class Watcher:
    """Watches files and folders. Belongs to one thread; others may call `wake`."""

    def __init__(
        self,
        *,
        events: bool = True,
        left: LeftHistory | None = None,
        reached: HistoryPosition | None = None,
    ) -> None:
        """Continues `left` if it has everything since the journal's position `reached`; owns its
        descriptors either way."""
        self._inotify: INotify | None = None
        self._memory: EventMemory | None = None
        self._why_not = "events are disabled"
        self._mounts = Mounts()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._closing = threading.Lock()
        self._poll = select.poll()
        self._poll.register(self._wake, select.POLLIN)
        self._poll_wake = select.poll()
        self._poll_wake.register(self._wake, select.POLLIN)
        self._forget()
        self.goes_on = events and left is not None and self._go_on(left, reached)
        if left is not None:
            os.close(left.queue)
            if not events:
                os.close(left.memory)
        if events and not self.goes_on:
            self._begin()

    def _forget(self) -> None:
        # Several paths if links lead to the folder, or it was moved: the newest is the last.
        self._folders: dict[int, dict[str, None]] = {}
        self._watched: dict[str, tuple[int, int, int]] = {}  # watch, device, inode
        self._leaving: dict[int, str] = {}  # given up, until the kernel's last event
        self._files: dict[int, int] = {}  # watch → number of users
        self._needed_from = 0
        self.grown: set[int] = set()
        self.gone: set[int] = set()
        self.changed: set[str] = set()
        self.names: list[Event[str]] = []
        self.left: dict[int, tuple[int, int]] = {}  # device and inode of former watches
        self.overflowed = False
        self.newly_watched: dict[str, NewlyWatched] = {}
        self.untold: set[str] = set()  # folders without complete events

    def _begin(self) -> None:
        try:
            self._inotify = INotify(nonblocking=True)
        except OSError as error:
            self._why_not = _reason(error)
            return
        try:
            self._memory = EventMemory.made()
        except OSError as error:
            self._inotify.close()
            self._inotify = None
            self._why_not = f"no memory for events: {error.strerror}"
            return
        self._poll.register(self._inotify.fileno(), select.POLLIN)

    def _go_on(self, left: LeftHistory, reached: HistoryPosition | None) -> bool:
        """Continues an earlier history. Returns whether it is complete."""
        try:
            self._memory = EventMemory.adopted(left.memory)
            is_whole = self._is_whole(left.queue, reached) and self._replay()
            if is_whole:
                self._inotify = INotify(nonblocking=True)
                os.dup2(left.queue, self._inotify.fileno(), inheritable=False)
        except (OSError, ValueError):
            is_whole = False
        if not is_whole or self._inotify is None:
            for descriptor_owner in (self._memory, self._inotify):
                if descriptor_owner is not None:
                    descriptor_owner.close()
            self._memory = self._inotify = None
            self._forget()
            return False
        self._poll.register(self._inotify.fileno(), select.POLLIN)
        return True

    def _is_whole(self, queue: int, reached: HistoryPosition | None) -> bool:
        memory = self._memory
        if memory is None or reached is None or reached.epoch != memory.epoch:
            return False
        self._needed_from = reached.needed_from
        is_queue = os.readlink(f"/proc/self/fd/{queue}") == _QUEUE  # noqa: PTH115  no path
        return is_queue and memory.first <= self._needed_from and reached.number <= memory.next

    def _replay(self) -> bool:
        assert self._memory is not None
        last_number = self._memory.first - 1
        for record in self._memory.records():
            if isinstance(record, RawEvent):
                self._take(record)
                last_number = record.number
            elif record.kind is NoteKind.WATCHED:
                self._note_folder(record)
            elif record.kind is NoteKind.GIVEN_UP and self.watch_of(record.path) == record.watch:
                self._give_up(record.path, last_number)
        return not self.overflowed

    @property
    def descriptor(self) -> int:
        """The queue's descriptor, for the descriptor store; -1 if there is none."""
        return -1 if self._inotify is None else self._inotify.fileno()

    @property
    def memory(self) -> int:
        """The descriptor of the memory of events; -1 if there is none."""
        return -1 if self._memory is None else self._memory.fd

    @property
    def epoch(self) -> str:
        """The epoch of the history; empty if there is none."""
        return "" if self._memory is None else self._memory.epoch

    @property
    def number(self) -> int:
        return 0 if self._memory is None else self._memory.next

    @property
    def is_filling(self) -> bool:
        """Whether it is time to journal the position up to which events are processed."""
        return self._memory is not None and self._memory.is_filling

    def position_journalled(self, number: int) -> None:
        """Notes that a successor no longer needs the events before this position."""
        self._needed_from = number
        if self._memory is not None:
            self._memory.position_journalled()

    @property
    def last_look(self) -> LastLook:
        assert self._memory is not None
        return self._memory.last_look

    def looked(self, look: LastLook) -> None:
        """Notes that everything before this look has been or is being processed."""
        if self._memory is not None:
            self._memory.looked(look)

    def begin_epoch(self) -> None:
        """Starts a new history after the kernel has lost events."""
        if self._memory is not None:
            self._memory.begin_epoch()
            self._needed_from = 0

    def watch_folder(self, path: str) -> str:
        """Watches a folder, if it exists. Returns why the folder has no events, or "" if it has
        them. Adds a newly watched folder to `newly_watched`, which the caller empties."""
        reason = self._watch(path)
        if reason:
            self.untold.add(path)
        return reason

    def _watch(self, path: str) -> str:
        if self._inotify is None or self._memory is None:
            return self._why_not
        replaces_folder = path in self._watched
        try:
            status = Path(path).stat()
            if replaces_folder:
                if self._watched[path][1:] == (status.st_dev, status.st_ino):
                    kind = self._mounts.without_events(status.st_dev)
                    return f"file system {kind} has no events" if kind else ""
                for inner_path in self._at_or_below(path):  # another folder has its name
                    self._give_up(inner_path, self.number - 1)
            kind = self._mounts.without_events(status.st_dev)
            watch = self._inotify.add_watch(path, _FOLDER)
        except OSError as error:
            self.untold.discard(path)
            if error.errno == errno.EACCES and _is_folder(path):
                return "no permission to list it"
            is_absent = error.errno in {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP}
            return "" if is_absent else _reason(error)
        note = FolderNote(NoteKind.WATCHED, watch, path, status.st_dev, status.st_ino)
        self._note_folder(note)
        if self._memory.note(note, self._needed_from):
            self.untold.discard(path)
        else:
            self.untold.add(path)
        if kind:
            return f"file system {kind} has no events"
        self.newly_watched[path] = NewlyWatched((status.st_dev, status.st_ino), replaces_folder)
        return ""

    def _note_folder(self, note: FolderNote) -> None:
        self._folders.setdefault(note.watch, {})[note.path] = None
        self._watched[note.path] = note.watch, note.device, note.inode

    def watch_of(self, path: str) -> int:
        """The watch of a path; -1 if it is not watched."""
        return self._watched[path][0] if path in self._watched else -1

    def path_of(self, identity: tuple[int, int]) -> str | None:
        """The path of a watched folder, by its device and inode."""
        paths = (path for path, watch in self._watched.items() if watch[1:] == identity)
        return next(paths, None)

    def unwatch_folders_but(self, paths: set[str]) -> None:
        for path in [path for path in self._watched if path not in paths]:
            self._give_up(path, self.number - 1)

    def watch_file(self, fd: int, device: int) -> tuple[int | None, str]:
        """Watches a file for one event. Returns the watch, or None and the reason."""
        if self._inotify is None:
            return None, self._why_not
        kind = self._mounts.without_events(device)
        if kind:
            return None, f"file system {kind} has no events"
        try:
            watch: int = self._inotify.add_watch(
                f"/proc/self/fd/{fd}", flags.MODIFY | flags.ONESHOT
            )
        except OSError as error:
            return None, _reason(error)
        self._files[watch] = self._files.get(watch, 0) + 1
        return watch, ""

    def unwatch_file(self, watch: int) -> None:
        users = self._files.get(watch, 0) - 1
        if users > 0:
            self._files[watch] = users
        elif users == 0:
            del self._files[watch]
            self._remove(watch)

    def collect(self) -> None:
        """Collects events into `grown`, `gone` (files that were removed without further writes),
        `changed`, `names`, `left` and `overflowed`, which the caller empties. If a folder has left
        its path, the event in `names` has a key of `left` as its cookie."""
        if self._inotify is None or self._memory is None:
            return
        for event in self._memory.read(self._inotify.fileno(), self._needed_from):
            self._take(event)

    def _take(self, event: RawEvent) -> None:
        watch, mask = event.watch, event.mask
        if mask & flags.Q_OVERFLOW:
            self.overflowed = True
            self._leaving.clear()
        elif watch in self._files:
            (self.gone if mask & flags.IGNORED else self.grown).add(watch)
            del self._files[watch]
        elif watch in self._folders:
            self._note_name([*reversed(self._folders[watch])], event)
            if mask & _GONE:
                self._leave(event)
        elif watch in self._leaving:
            self._note_name([self._leaving[watch]], event)
            if mask & _GONE:
                path = self._leaving.pop(watch)
                self.names.append(Event(path, IGNORED, watch, "", event.number))

    @property
    def has_news(self) -> bool:
        """Whether collected events are pending; `wait` returns at once then."""
        return bool(self.grown or self.gone or self.changed or self.overflowed)

    @property
    def is_full(self) -> bool:
        """Whether reading has stopped because the memory is full."""
        return self._memory is not None and self._memory.is_full

    def _note_name(self, paths: Collection[str], event: RawEvent) -> None:
        self.changed.update(paths)
        if event.mask & ANY_NAME and event.name:
            _, mask, cookie, name, number = event
            self.names += [Event(path, mask, cookie, name, number) for path in paths]

    def _leave(self, event: RawEvent) -> None:
        """Unwatches a folder that was moved or removed, and those below it if it was moved."""
        mask = event.mask
        for folder in list(self._folders[event.watch]):
            for path in self._at_or_below(folder) if mask & flags.MOVE_SELF else [folder]:
                if path not in self._watched:
                    continue  # a link there leads to a folder above it
                watch, is_last = self._unwatch(path, NoteKind.LEFT)
                self.names.append(Event(path, IGNORED, watch, "", event.number))
                if is_last and not mask & IGNORED:
                    self._remove(watch)

    def _at_or_below(self, path: str) -> list[str]:
        start = below(path, "")
        return [path, *(path_below for path_below in self._watched if path_below.startswith(start))]

    def wait(self, seconds: float) -> None:
        poll = self._poll if not self.is_full else self._poll_wake  # unread events would wake it
        poll.poll(max(0.0, seconds) * 1000)
        try:
            os.eventfd_read(self._wake)
        except BlockingIOError:
            return

    def wake(self) -> None:
        """Ends `wait`. Any thread, also after `close`."""
        with self._closing:
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        with self._closing:
            wake_fd, self._wake = self._wake, -1
            os.close(wake_fd)
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def _give_up(self, path: str, last: int) -> None:
        """Gives up a path after event `last`. Events still queued happened there before."""
        watch, is_last = self._unwatch(path, NoteKind.GIVEN_UP)
        if is_last:
            self._leaving[watch] = path
            self._remove(watch)
        else:
            self.names.append(Event(path, IGNORED, watch, "", last))

    def _unwatch(self, path: str, why: NoteKind) -> tuple[int, bool]:
        """Forgets a path. Returns its watch, and whether no other path leads to its folder."""
        watch, device, inode = self._watched.pop(path)
        self.untold.discard(path)
        if self._inotify is not None and self._memory is not None:  # and this is no replay
            note = FolderNote(why, watch, path, device, inode)
            self._memory.note(note, self._needed_from)
        self.left[watch] = device, inode
        del self._folders[watch][path]
        if self._folders[watch]:
            return watch, False
        del self._folders[watch]
        return watch, True

    def _remove(self, watch: int) -> None:
        try:
            if self._inotify is not None:
                self._inotify.rm_watch(watch)
        except OSError as error:
            if error.errno != errno.EINVAL:  # it is gone already, with its file
                raise


def _reason(error: OSError) -> str:
    reason = _REASONS.get(error.errno or 0)
    return reason or f"inotify: {os.strerror(error.errno or 0)}"


def _is_folder(path: str) -> bool:
    """Whether it is a folder whose entries can be accessed by name."""
    try:
        return Path(path).is_dir() and os.access(path, os.X_OK, effective_ids=True)
    except OSError:
        return False
