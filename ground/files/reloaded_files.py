"""Values built from files, and rebuilt when the files are replaced while the program runs.

The files are checked at every access. If the new files are unusable, the old value stays in force,
and that is logged once.
"""

import logging
import os
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

log = logging.getLogger(__name__)

FileStamp = tuple[int, int, int]

T = TypeVar("T")

_NO_FILE: Final = (0, 0, 0)


class Exchanged(Generic[T]):
    """A value built from files, and rebuilt when they are replaced. Thread-safe."""

    def __init__(
        self,
        files: tuple[str, ...],
        make: Callable[[], T],
        *,
        unusable: type[Exception],
        what: str,
    ) -> None:
        """`make` raises `unusable` for bad files; `what` begins the log line about a change."""
        self._files = files
        self._make = make
        self._unusable = unusable
        self._what = what
        self._lock = threading.Lock()
        self._made: list[T] = []  # empty until `make` succeeds
        self._stamp: tuple[FileStamp, ...] = ()
        self._refused: tuple[FileStamp, ...] = ()

    @property
    def current(self) -> T:
        """The value for the current files. Raises `unusable` if no files were ever usable."""
        with self._lock:
            stamp = tuple(map(file_stamp, self._files))
            if not self._made or stamp not in (self._stamp, self._refused):
                try:
                    self._made, self._stamp = [self._make()], stamp
                except self._unusable as error:
                    if not self._made:
                        raise
                    self._refused = stamp
                    log.error(
                        "cannot load changed %s, keeping the previous ones reason=%s",
                        self._what,
                        error,
                    )
            return self._made[0]


def file_stamp(path: str) -> FileStamp:
    """Returns a stamp that changes whenever another file gets this name; all unreadable files have
    the same stamp."""
    try:
        status = os.stat(path) if path else None  # noqa: PTH116 -- at every login
    except OSError:
        return _NO_FILE
    return (status.st_mtime_ns, status.st_ino, status.st_size) if status else _NO_FILE
