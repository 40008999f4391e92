"""A lock on a directory, held by one process at a time.

The kernel holds it (`flock` on a file in the directory) exactly as long as a descriptor of the file
is open, here or in a child that inherited it: a kill leaves nothing to clean up. The file stays,
and its content is the holder's business. A symbolic link in its place is not followed.
"""

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_GLANCE_S: Final = 0.05
_MOST_CONTENT: Final = 64


class InUse(Exception):
    """Another process holds the directory; `content` is the beginning of the lock file."""

    def __init__(self, path: Path, content: bytes) -> None:
        super().__init__(f"{path} is held by another process")
        self.content = content


class DirectoryLock:
    """A lock, held from construction until closed. Raises InUse after `patience_s`, or OSError."""

    def __init__(self, path: Path, *, mode: int = 0o600, patience_s: float = 0.0) -> None:
        self._path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(path, flags, mode)
        try:
            if not _taken(self._fd, patience_s):
                raise InUse(path, os.pread(self._fd, _MOST_CONTENT, 0))
        except BaseException:
            os.close(self._fd)
            raise

    def fileno(self) -> int:
        """The descriptor of the lock file, to which the holder may write."""
        return self._fd

    @property
    def is_there(self) -> bool:
        """Whether the locked file still has its name."""
        try:
            named_file = os.lstat(self._path)
        except OSError:
            return False
        return os.path.samestat(named_file, os.fstat(self._fd))

    @property
    def closed(self) -> bool:
        return self._fd < 0

    def close(self) -> None:
        """Releases the lock. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _taken(fd: int, patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_GLANCE_S)
        else:
            return True
