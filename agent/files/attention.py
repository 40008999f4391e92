"""Decides which files are checked for growth, and when, so that an idle file costs nothing.

A *busy* file's size is checked at every look. After a while without growth the file is *idle*, and
inotify reports when it grows. A file that was idle before becomes idle again right after a check,
so an occasional write costs one check. Without inotify, a file is *polled* once a second, or less
often if there are thousands. The scan finds everything that this misses.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from agent.history.watcher import Watcher
from agent.open_files.open_file_limit import Handles
from agent.recognition.followed import Followed
from agent.recognition.identity import is_untouched

_QUIET: Final = 0.15
_POLLED_EVERY: Final = 1.0
_POLLED_EACH_SECOND: Final = 1000


class Attention:
    """Keeps every followed file in one of three sets: busy, idle, polled. Files in `unread` may
    have bytes to read; those in `unclear` have some, and are not identified yet."""

    def __init__(
        self, watcher: Watcher, handles: Handles, no_events: Callable[[str, str], None]
    ) -> None:
        self._watcher = watcher
        self._handles = handles
        self._no_events = no_events
        self._busy: dict[Followed, None] = {}
        self._idle: dict[int, dict[Followed, None]] = {}
        self._polled: dict[Followed, None] = {}
        self._polled_at = 0.0
        self.millis = 0  # of this look
        self.last_millis = 0  # of the previous look
        self._told_millis = 0  # watched files had not been written to by then
        self.unread: dict[Followed, None] = {}
        self.unclear: dict[Followed, None] = {}
        self.begun: set[Followed] = set()  # sources that had no byte before this look

    def make_busy(self, followed: Followed, now: float) -> None:
        """Makes a file busy, because it is new or may have grown."""
        self._wake(followed, now)
        self._unwatch(followed)
        self._polled.pop(followed, None)
        self._busy[followed] = None
        self.note(followed)

    def note_first_look(self, followed: Followed, now: float) -> None:
        """Records the first look at a file."""
        followed.look.idle_since = now
        followed.look.looked_millis, followed.look.met_millis = self.millis, self.last_millis

    def note_earlier_look(self, followed: Followed, millis: int, size: int | None = None) -> None:
        """Records an earlier look, at `millis`, perhaps by another process, and the size at that
        look."""
        followed.look.looked_millis = max(followed.look.looked_millis, millis)
        if size is not None:
            followed.look.size = size

    def may_begin(self, followed: Followed) -> None:
        """Notes that this look may be the first to see content in the file."""
        if followed.source and followed.is_unseen:
            self.begun.add(followed)

    def note_moved(self, followed: Followed, size: int, mtime_ns: int) -> None:
        """Sets size and time after the source has moved to another file."""
        followed.look.size, followed.look.mtime_ns = size, mtime_ns

    def rest(self, followed: Followed, now: float) -> None:
        """Records that the file has not grown since `now`."""
        followed.look.idle_since = now

    def note(self, followed: Followed) -> None:
        """Adds the file to `unread` or `unclear` if it may have bytes to read."""
        if not followed.source:
            if followed.look.size:
                self.unclear[followed] = None
        elif followed.unread:
            self.unread[followed] = None

    @property
    def at_rest(self) -> bool:
        """Whether no look is due before inotify reports something."""
        return not (self._busy or self._polled or self.unread or self.unclear)

    def drop(self, followed: Followed) -> None:
        self._unwatch(followed)
        for files in (self._busy, self._polled, self.unread, self.unclear):
            files.pop(followed, None)

    def begins(self, millis: int, *, is_caught_up: bool) -> None:
        """Begins a look. `is_caught_up`: inotify has reported everything before it."""
        self._told_millis = self.millis if is_caught_up else 0
        self.last_millis, self.millis = self.millis, millis
        self.begun.clear()

    def look(self, now: float) -> None:
        removed_files, self._watcher.gone = self._watcher.gone, set()
        for watch in removed_files:
            for followed in self._idle.pop(watch, ()):
                followed.look.watch = None
                followed.seal()
                self._busy[followed] = None
        grown_files, self._watcher.grown = self._watcher.grown, set()
        for watch in grown_files:
            for followed in self._idle.pop(watch, ()):
                followed.look.watch = None
                self._wake(followed, now)
                followed.look.looked_millis = max(followed.look.looked_millis, self._told_millis)
                self._busy[followed] = None
        for followed in list(self._busy):
            if not self.refresh(followed, now) and self._is_quiet(followed, now):
                self._let_rest(followed, now)
        self._poll(now)

    def _wake(self, followed: Followed, now: float) -> None:
        was_idle = now - followed.look.idle_since > _QUIET
        followed.look.roused_at, followed.look.patience = now, 0.0 if was_idle else _QUIET

    def refresh(self, followed: Followed, now: float) -> bool:
        """Checks a file, and returns whether it has grown. Notes anything unusual. A missing file
        is searched for at each scan, not here."""
        if followed.suspect or followed.trouble is not None or followed.is_away:
            return False
        try:
            status = self._status(followed)
        except OSError as error:
            self._handles.trouble(followed, error)
            return False
        if status is None:
            return False
        size = status.st_size
        if size < followed.look.size:
            followed.doubt()
            return False
        previous_millis, followed.look.looked_millis = followed.look.looked_millis, self.millis
        mtime_ns = status.st_mtime_ns
        if size == followed.look.size and mtime_ns == followed.look.mtime_ns:
            return False
        self.may_begin(followed)
        if not self._is_intact(followed):
            followed.look.looked_millis = previous_millis
            return False
        followed.look.mtime_ns = mtime_ns
        if size == followed.look.size:
            return False
        followed.look.size = size
        followed.look.idle_since = now
        self.note(followed)
        return True

    def _is_intact(self, followed: Followed) -> bool:
        try:
            return followed.is_intact()
        except OSError as error:
            self._handles.trouble(followed, error)
            return False

    def _status(self, followed: Followed) -> os.stat_result | None:
        """The file's status; None if it is not the same file any more. A closed file is opened only
        if it has changed, since its name, and even its inode, may belong to another file by now."""
        if followed.fd is not None:
            return os.fstat(followed.fd)
        try:
            status = Path(followed.current_path).stat()
        except (FileNotFoundError, NotADirectoryError):
            followed.doubt()
            return None
        identity = status.st_dev, status.st_ino
        if is_untouched(followed, identity, status.st_size, status.st_mtime_ns):
            return status
        return followed.status()

    def _is_quiet(self, followed: Followed, now: float) -> bool:
        quiet_since = max(followed.look.idle_since, followed.look.roused_at)
        return now - quiet_since > followed.look.patience

    def _let_rest(self, followed: Followed, now: float) -> None:
        del self._busy[followed]
        if followed.suspect or followed.trouble is not None:
            return
        try:
            fd = followed.open()
        except OSError as error:
            self._handles.trouble(followed, error)
            return
        if fd is None:
            return
        watch, reason = self._watcher.watch_file(fd, followed.identity[0])
        if watch is None:
            self._polled[followed] = None
            self._no_events(followed.current_path, reason)
            return
        followed.look.watch = watch
        self._idle.setdefault(watch, {})[followed] = None
        if self.refresh(followed, now):  # it grew just before it was watched
            self.make_busy(followed, now)

    def _poll(self, now: float) -> None:
        if not self._polled:
            self._polled_at = now
            return
        count = len(self._polled)
        per_second = min(_POLLED_EACH_SECOND, count / _POLLED_EVERY)
        due_count = min(count, int((now - self._polled_at) * per_second))
        if due_count <= 0:
            return
        self._polled_at = now
        for followed in [
            due_file for due_file, _ in zip(self._polled, range(due_count), strict=False)
        ]:
            del self._polled[followed]
            self._polled[followed] = None
            if self.refresh(followed, now):
                self.make_busy(followed, now)

    def _unwatch(self, followed: Followed) -> None:
        watch, followed.look.watch = followed.look.watch, None
        if watch is None:
            return
        followed.look.looked_millis = max(followed.look.looked_millis, self._told_millis)
        sharing_files = self._idle.get(watch, {})
        sharing_files.pop(followed, None)
        if not sharing_files:
            self._idle.pop(watch, None)
        self._watcher.unwatch_file(watch)
