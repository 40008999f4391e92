"""The right to a directory: one `penstock up` at a time.

The kernel holds it for as long as the process lives, and no longer; the file says who it is. A link
in its place, which may lead to anything, is not followed.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from penstock.up.errors import AlreadyRunning

_LONGEST: Final = 20


class Lock:
    """Held from here on, until it is closed. Raises AlreadyRunning or OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(
            path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644
        )
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._descriptor, _LONGEST, 0).strip()
            os.close(self._descriptor)
            who = f" (process {int(holder)})" if holder.isdigit() else ""
            raise AlreadyRunning(
                f"{path.parent} is in use by another penstock up{who}: stop that one, or choose "
                "another --dir"
            ) from None
        except OSError:
            os.close(self._descriptor)
            raise
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)

    @property
    def is_there(self) -> bool:
        """Whether what is held is still what others would find."""
        try:
            found = os.lstat(self._path)
        except OSError:
            return False
        return os.path.samestat(found, os.fstat(self._descriptor))

    def close(self) -> None:
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)

    def __enter__(self) -> "Lock":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
