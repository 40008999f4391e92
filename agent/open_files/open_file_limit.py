"""Limits the number of open files.

`opening` decides which files may be opened. Beyond the cap, the least recently used file is closed,
preferably one without unread bytes. A deleted file is never closed for another one, since it could
not be opened again; nor are the two used last.
"""

import errno
import os
import resource
import time
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice
from typing import Final, Protocol

import msgspec

from agent.open_files.kept_files import Keeping, Open
from agent.open_files.opening import Opening

_CONSIDERED: Final = 64
_OTHER_HANDLES: Final = 256
_IN_USE: Final = 2  # a caller may use two files at once
_EXHAUSTED: Final = {errno.EMFILE, errno.ENFILE}


class Handle(msgspec.Struct):
    """The descriptor of a file. A closed file existed at `there_millis`."""

    fd: int | None = None
    there_millis: int = 0


class HandleHolder(Open, Protocol):
    """A holder of an open file, which receives the file's errors."""

    trouble: OSError | None

    @property
    def handle(self) -> Handle: ...


def there_millis(fd: int, wall: float) -> int:
    """The latest time at which the file is known to have had a name; a file created after it is a
    different one."""
    try:
        status = os.fstat(fd)
    except OSError:
        return int(wall * 1000)
    lost_name = status.st_nlink == 0
    return (status.st_ctime_ns // 1_000_000 if lost_name else int(wall * 1000)) + 1


class Handles:
    """The open files, at most `most`. `notable` are the holders whose files changed in a notable
    way. A file exists while it is open, so closing it records the time. `kept_files` is informed of
    every file."""

    def __init__(
        self,
        most: int,
        wall: Callable[[], float] = time.time,
        keeping: Keeping | None = None,
        opening: Opening | None = None,
    ) -> None:
        self._opening = opening or Opening()
        self._most = most
        self._wall = wall
        self._keeping = keeping
        self._held: OrderedDict[HandleHolder, None] = OrderedDict()
        self._uses = 0
        self.notable: set[HandleHolder] = set()

    def __len__(self) -> int:
        return len(self._held)

    def open(self, path: str, known_as: str = "") -> tuple[int, os.stat_result]:
        """Opens a file; the caller holds or closes it. `known_as`: the path that the input matches,
        if the file was found elsewhere. Raises OSError, also if it is not a regular file."""
        try:
            return self._opening.open(path, known_as)
        except OSError as error:
            if error.errno not in _EXHAUSTED or not self._close_one():
                raise
            return self._opening.open(path, known_as)

    def check_kept(self, fd: int, path: str) -> None:
        """Checks that a file that was handed over may be read. Raises OSError."""
        self._opening.check_kept(fd, path)

    def hold(self, holder: HandleHolder, fd: int) -> None:
        holder.handle.fd = fd
        self._held[holder] = None
        if self._keeping is not None:
            self._keeping.opened(holder)
        while len(self._held) > self._most and self._close_one():
            pass

    def use(self, holder: HandleHolder) -> int:
        """Notes a use. Returns its number; later uses have higher ones."""
        self._held.move_to_end(holder)
        self._uses += 1
        return self._uses

    def trouble(self, holder: HandleHolder, error: OSError) -> None:
        holder.trouble = error
        self.notable.add(holder)

    def clear_trouble(self, holder: HandleHolder) -> None:
        """Clears the error, when the file is readable or to be retried."""
        holder.trouble = None

    def remember(self, holder: HandleHolder, millis: int) -> None:
        """Records a time at which the file existed, known from an earlier process."""
        holder.handle.there_millis = millis

    def take(self, holder: HandleHolder) -> int | None:
        """Releases the descriptor without closing it."""
        self._held.pop(holder, None)
        handle = holder.handle
        fd, handle.fd = handle.fd, None
        if fd is not None:
            handle.there_millis = there_millis(fd, self._wall())
            if self._keeping is not None:
                self._keeping.closed(holder)
        return fd

    def close(self, holder: HandleHolder) -> None:
        fd = self.take(holder)
        if fd is not None:
            os.close(fd)

    def _close_one(self) -> bool:
        older_holders = islice(self._held, max(0, len(self._held) - _IN_USE))
        closable_holders = islice(
            (holder for holder in older_holders if not holder.nameless), _CONSIDERED
        )
        first_holder = next(closable_holders, None)
        if first_holder is None:
            return False
        if first_holder.unread:
            first_holder = next(
                (holder for holder in closable_holders if not holder.unread), first_holder
            )
        self.close(first_holder)
        return True


def most_handles(wanted: int) -> int:
    """The number of files to hold open within the process's limit, with a reserve for others."""
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft_limit == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(16, soft_limit - _OTHER_HANDLES))
