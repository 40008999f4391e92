"""Events of files and folders, from inotify, behind one file descriptor. The only module that asks
it.

A folder is watched for names that come and go. A file is watched only while it is idle, for one
event: a busy one costs none. The watch is put on an open handle, so that it is that very file's,
whatever its name leads to meanwhile. Where nothing can be watched, `watch_…` says so by returning
why, and whoever asked looks by itself.

A watch that is given up, as its folder is gone, or is another one by that name, has told all until
then: what is still in the queue of it is taken as before, and then `names` says that this path is
not that folder's any more.

A descriptor that an earlier process left is gone on with: watches that it has are had again under
the same numbers, and what came to its queue in between says what happened `meanwhile`; unless
that process has read something of it that it had not said when it died.

On some file systems other hosts write as well: of their writes there is no event here, so that
nothing is watched there.
"""

import array
import errno
import fcntl
import mmap
import os
import select
import termios
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Final, NamedTuple

from inotify_simple import INotify, flags, parse_events

from agent.files.name_events import ANY_NAME, IGNORED, Event, Meanwhile, folders_meanwhile
from agent.files.names import below

_FOLDER: Final = ANY_NAME | flags.DELETE_SELF | flags.MOVE_SELF | flags.ONLYDIR
_GONE: Final = flags.DELETE_SELF | flags.MOVE_SELF | flags.UNMOUNT | flags.IGNORED
_WORDS: Final = {
    errno.ENOSPC: "the watches of inotify are used up (sysctl fs.inotify.max_user_watches)",
    errno.EMFILE: "the instances of inotify are used up (sysctl fs.inotify.max_user_instances)",
}
_SAID: Final = 0
_UNSAID: Final = 1

_FROM_ELSEWHERE: Final = {
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "9p", "afs", "lustre", "gpfs", "beegfs"),
    *("glusterfs", "virtiofs", "ncpfs", "ocfs2", "gfs2"),
}


class Mounts:
    """Of this host. Read anew for a device that is not known yet."""

    def __init__(self, table: Path = Path("/proc/self/mountinfo")) -> None:
        self._table = table
        self._types: dict[int, str] = {}

    def without_events(self, device: int) -> str:
        """The type of a file system that knows of no events; empty if it does."""
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


class Anew(NamedTuple):
    """A folder that is watched from now on: device and inode, and whether it has the name of one
    that was watched and is still there, as behind a link. The kernel does not tell of that."""

    identity: tuple[int, int]
    instead: bool


class Unsaid:
    """Whether something was read of the queue that is not written down yet. One thread's.

    What was read is in the queue no more, so a process that dies before it has written down what it
    said of that leaves a queue with a hole that nobody can see. One byte says so: it is set before
    the queue is read. It lies in memory of its own, kept beside the queue and as long as that, over
    the death of whoever set it. To set it costs no call, and needs no room on any disk.
    """

    def __init__(self, left: int | None = None) -> None:
        """`left` is the descriptor of an earlier process's, for this to close; without it, or if it
        is something else, nobody knows what was read, and `was_unsaid`."""
        self.goes_on = False  # with what an earlier process had
        self.fd = -1
        if left is not None:
            try:
                self._byte = mmap.mmap(left, 1)
            except (OSError, ValueError):
                os.close(left)
            else:
                self.fd, self.goes_on = left, True
        if not self.goes_on:
            self.fd = os.memfd_create("unsaid", os.MFD_CLOEXEC)
            os.ftruncate(self.fd, 1)
            self._byte = mmap.mmap(self.fd, 1)
            self._byte[0] = _UNSAID
        self.was_unsaid = self.is_set

    @property
    def is_set(self) -> bool:
        return self._byte[0] != _SAID

    def set(self) -> None:
        self._byte[0] = _UNSAID

    def clear(self) -> None:
        self._byte[0] = _SAID

    def close(self) -> None:
        if self.fd >= 0:
            self._byte.close()
            os.close(self.fd)
            self.fd = -1


class Watcher:
    """Wakes whoever waits. One thread, but for `wake`."""

    def __init__(self, unsaid: Unsaid, *, events: bool = True, left: int | None = None) -> None:
        """`left` is a descriptor that was kept of an earlier one; it is closed here. `unsaid` is
        closed with this, and for whoever writes down what is said to clear."""
        self.unsaid = unsaid
        self._inotify: INotify | None = None
        self._why_not = "events are switched off"
        self._mounts = Mounts()
        # Several where a link leads to one, or it was moved: the newest is the last.
        self._folders: dict[int, dict[str, None]] = {}
        self._watched: dict[str, tuple[int, int, int]] = {}  # watch, device, inode
        self._leaving: dict[int, str] = {}  # given up, and the kernel has not said so yet
        self._files: dict[int, int] = {}  # watch → how many have asked for it
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._closing = threading.Lock()
        self._poll = select.poll()
        self._poll.register(self._wake, select.POLLIN)
        self._before: list[Event[int]] = []  # until somebody asked for the watches that were left
        self._meanwhile: dict[int, Meanwhile] | None = None  # of them
        self._left_folders: set[int] = set()  # of which the queue has all that happened
        self._left: set[int] = set()  # watches that nobody has asked for yet
        self.goes_on = False  # with what an earlier one had
        if events:
            self._begin()
            self._go_on(left)
        if left is not None:
            os.close(left)
        self.grown: set[int] = set()
        self.gone: set[int] = set()
        self.changed: set[str] = set()
        self.names: list[Event[str]] = []
        self.left: dict[int, tuple[int, int]] = {}  # device and inode of what is watched no more
        self.overflowed = False
        self.anew: dict[str, Anew] = {}

    def _begin(self) -> None:
        try:
            self._inotify = INotify(nonblocking=True)
        except OSError as error:
            self._why_not = _words(error)
            return
        self._poll.register(self._inotify.fileno(), select.POLLIN)

    def _go_on(self, left: int | None) -> None:
        if left is None or self._inotify is None:
            return
        try:
            watches = watches_of(left)
            os.dup2(left, self._inotify.fileno(), inheritable=False)
        except (OSError, ValueError, KeyError):
            return  # whatever it is, it is no queue
        self.goes_on = True
        self._before = [Event(*each) for each in self._read(self._inotify)]
        folders = {watch for watch, mask in watches.items() if mask & ANY_NAME == ANY_NAME}
        self._left = set(folders)
        if not self.unsaid.was_unsaid:
            self._left_folders = folders
        for watch in watches.keys() - folders:
            self._remove(watch)

    @property
    def descriptor(self) -> int:
        """For whoever keeps it over this process's end; -1 if there is none."""
        return -1 if self._inotify is None else self._inotify.fileno()

    def meanwhile(self, folder: str) -> Meanwhile | None:
        """What happened in a folder that is watched, since an earlier process watched it; None if
        that is not known."""
        watch, device, _ = self._watched.get(folder, (-1, 0, 0))
        if watch < 0 or self._mounts.without_events(device):
            return None
        if self._meanwhile is None:
            self._meanwhile = folders_meanwhile(self._left_folders, self._before)
        return self._meanwhile.get(watch)

    def folders_of(self, watch: int) -> Collection[str]:
        """Paths of the folder that has it."""
        return self._folders.get(watch, ())

    def unwatch_what_was_left(self) -> None:
        """Watches of an earlier process that nobody has asked for since. After everything was
        looked at."""
        left, self._left = self._left, set()
        for watch in left - self._folders.keys() - self._files.keys():
            self._remove(watch)

    def watch_folder(self, path: str) -> str:
        """Empty, or why there will be no events. One that is not there is not watched. One that
        was not watched before is among `anew`, which is for the caller to empty."""
        if self._inotify is None:
            return self._why_not
        instead = path in self._watched
        try:
            status = Path(path).stat()
            if instead:
                if self._watched[path][1:] == (status.st_dev, status.st_ino):
                    return ""
                for each in self._at_or_below(path):  # another folder has its name
                    self._give_up(each)
            kind = self._mounts.without_events(status.st_dev)
            watch = self._inotify.add_watch(path, _FOLDER)
        except OSError as error:
            if error.errno == errno.EACCES and _is_folder(path):
                return "it may not be listed"
            absent = error.errno in {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP}
            return "" if absent else _words(error)
        self._folders.setdefault(watch, {})[path] = None
        self._watched[path] = watch, status.st_dev, status.st_ino
        if kind:
            return f"it is on {kind}"
        self.anew[path] = Anew((status.st_dev, status.st_ino), instead)
        return ""

    def watch_of(self, path: str) -> int:
        """-1 if it is not watched."""
        return self._watched[path][0] if path in self._watched else -1

    def path_of(self, identity: tuple[int, int]) -> str | None:
        """Of a folder that is watched, by its device and inode."""
        paths = (path for path, each in self._watched.items() if each[1:] == identity)
        return next(paths, None)

    def unwatch_folders_but(self, paths: set[str]) -> None:
        for path in [path for path in self._watched if path not in paths]:
            self._give_up(path)

    def watch_file(self, fd: int, device: int) -> tuple[int | None, str]:
        """The watch, which is over with its first event; or why there is none."""
        if self._inotify is None:
            return None, self._why_not
        kind = self._mounts.without_events(device)
        if kind:
            return None, f"it is on {kind}"
        try:
            watch: int = self._inotify.add_watch(
                f"/proc/self/fd/{fd}", flags.MODIFY | flags.ONESHOT
            )
        except OSError as error:
            return None, _words(error)
        self._files[watch] = self._files.get(watch, 0) + 1
        return watch, ""

    def unwatch_file(self, watch: int) -> None:
        left = self._files.get(watch, 0) - 1
        if left > 0:
            self._files[watch] = left
        elif left == 0:
            del self._files[watch]
            self._remove(watch)

    def collect(self) -> None:
        """What has happened goes into `grown`, `gone` (files that were not written to before they
        ceased to exist), `changed`, `names`, `left`, `overflowed`; they are for the caller to
        empty. The cookie of a name that says that a path has left its folder is one of `left`."""
        if self._inotify is None:
            return
        was_unsaid = self.unsaid.is_set
        for watch, mask, cookie, name in self._read(self._inotify):
            if mask & flags.Q_OVERFLOW:
                self.overflowed = True
                self._leaving.clear()
                self._note_before(Event(watch, mask, cookie, name))
            elif watch in self._files:
                (self.gone if mask & flags.IGNORED else self.grown).add(watch)
                del self._files[watch]
            elif watch in self._folders:
                self._note_name([*reversed(self._folders[watch])], mask, cookie, name)
                if mask & _GONE:
                    self._leave(watch, mask)
            elif watch in self._leaving:
                self._note_name([self._leaving[watch]], mask, cookie, name)
                if mask & _GONE:
                    self.names.append(Event(self._leaving.pop(watch), IGNORED, watch, ""))
            elif watch in self._left:
                self._note_before(Event(watch, mask, cookie, name))
        if not (was_unsaid or self.changed or self.overflowed):
            self.unsaid.clear()  # at most a file has grown

    @property
    def has_news(self) -> bool:
        """Whether something was collected that nobody has taken: `wait` does not wake for it."""
        return bool(self.grown or self.gone or self.changed or self.overflowed)

    def _read(self, inotify: INotify) -> list[tuple[int, int, int, str]]:
        size = _waiting(inotify)
        if not size:
            return []
        self.unsaid.set()
        found: list[tuple[int, int, int, str]] = parse_events(os.read(inotify.fileno(), size))
        return found

    def _note_before(self, event: Event[int]) -> None:
        """It happened before the first look was at its folder."""
        if self._left:
            self._before.append(event)
            self._meanwhile = None

    def _note_name(self, paths: Collection[str], mask: int, cookie: int, name: str) -> None:
        self.changed.update(paths)
        if mask & ANY_NAME and name:
            self.names += [Event(each, mask, cookie, name) for each in paths]

    def _leave(self, watch: int, mask: int) -> None:
        """The folder is not where it was, and nor is what is below it. What its queue tells from
        now on is of nobody's."""
        for path in list(self._folders[watch]):
            for each in self._at_or_below(path) if mask & flags.MOVE_SELF else [path]:
                if each not in self._watched:
                    continue  # a link there leads to a folder above it
                left, last = self._unwatch(each)
                self.names.append(Event(each, IGNORED, left, ""))
                if last and not mask & IGNORED:
                    self._remove(left)

    def _at_or_below(self, path: str) -> list[str]:
        return [path, *(each for each in self._watched if each.startswith(below(path, "")))]

    def wait(self, seconds: float) -> None:
        self._poll.poll(max(0.0, seconds) * 1000)
        try:
            os.eventfd_read(self._wake)
        except BlockingIOError:
            return

    def wake(self) -> None:
        """Any thread, also when it is closed already."""
        with self._closing:
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        with self._closing:
            wake, self._wake = self._wake, -1
            os.close(wake)
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None
        self.unsaid.close()

    def _give_up(self, path: str) -> None:
        """What is still in the queue happened there before."""
        watch, is_last = self._unwatch(path)
        if is_last:
            self._leaving[watch] = path
            self._remove(watch)
        else:
            self.names.append(Event(path, IGNORED, watch, ""))

    def _unwatch(self, path: str) -> tuple[int, bool]:
        """The watch, and whether no other path leads there."""
        watch, device, inode = self._watched.pop(path)
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


def _waiting(inotify: INotify) -> int:
    """Bytes of events in its queue."""
    size = array.array("i", [0])
    fcntl.ioctl(inotify.fileno(), termios.FIONREAD, size)
    return size[0]


def _words(error: OSError) -> str:
    known = _WORDS.get(error.errno or 0)
    return known or f"inotify says: {os.strerror(error.errno or 0)}"


def _is_folder(path: str) -> bool:
    """Whether it is there, and what is in it may be looked at by name."""
    try:
        return Path(path).is_dir() and os.access(path, os.X_OK, effective_ids=True)
    except OSError:
        return False


def watches_of(fd: int) -> dict[int, int]:
    """The mask of each watch by its number. Raises OSError.

    The kernel prints both in hexadecimal, whatever proc(5) says of the number.
    """
    found = {}
    for line in Path(f"/proc/self/fdinfo/{fd}").read_text(encoding="ascii").splitlines():
        if line.startswith("inotify "):
            fields = dict(field.partition(":")[::2] for field in line.split()[1:])
            found[int(fields["wd"], 16)] = int(fields["mask"], 16)
    return found
