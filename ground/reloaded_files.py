"""What is made of files, and made anew when they have been exchanged, while the program runs.

The files are looked at whenever it is asked for. If nothing can be made of those that are there
now, what was made before stays in force, and that is logged once.
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
    """Any thread may ask."""

    def __init__(
        self,
        files: tuple[str, ...],
        make: Callable[[], T],
        *,
        unusable: type[Exception],
        what: str,
    ) -> None:
        """`make` raises `unusable`; `what` begins the line that is logged then."""
        self._files = files
        self._make = make
        self._unusable = unusable
        self._what = what
        self._lock = threading.Lock()
        self._made: list[T] = []  # one, once there could be
        self._stamp: tuple[FileStamp, ...] = ()
        self._refused: tuple[FileStamp, ...] = ()

    @property
    def current(self) -> T:
        """By the files as they are now. Raises `unusable` if none could ever be used."""
        with self._lock:
            stamp = tuple(map(file_stamp, self._files))
            if not self._made or stamp not in (self._stamp, self._refused):
                try:
                    self._made, self._stamp = [self._make()], stamp
                except self._unusable as error:
                    if not self._made:
                        raise
                    self._refused = stamp
                    log.error("%s, the old ones stay reason=%s", self._what, error)
            return self._made[0]


def file_stamp(path: str) -> FileStamp:
    """Another one whenever another file has the name; the same for all that cannot be looked at."""
    try:
        found = os.stat(path) if path else None  # noqa: PTH116 -- at every login
    except OSError:
        return _NO_FILE
    return (found.st_mtime_ns, found.st_ino, found.st_size) if found else _NO_FILE
