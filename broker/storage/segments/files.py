"""Files that are closed when they are no longer referenced.

An `OpenFile` has no `close`: a segment may be deleted, or replaced by its compacted successor,
while a slice of it still waits in some connection's send queue. The last reference closes it.
`OPEN` has the number of such files in this process.
"""

import errno
import os
from pathlib import Path
from typing import Final

from ground.files.durable_files import OUT_OF_FILES

OPEN: Final[set[int]] = set()  # the descriptors of all `OpenFile`s


class OpenFile:
    """An open file, closed when its last reference is dropped, on the thread that drops it."""

    __slots__ = ("fd", "path")

    def __init__(self, path: Path | str, flags: int = os.O_RDONLY) -> None:
        self.path = path
        self.fd = -1
        self.fd = os.open(path, flags | os.O_CLOEXEC, 0o644)
        OPEN.add(self.fd)

    def fileno(self) -> int:
        return self.fd

    def __del__(self) -> None:
        if self.fd >= 0:
            OPEN.discard(self.fd)  # first: the number may be reused at once
            os.close(self.fd)


def is_out_of_files(error: BaseException | None) -> bool:
    """Returns whether the process has too many open files, which may pass soon."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in OUT_OF_FILES:
            return True
        error = error.__cause__
    return False


def check_there(file: OpenFile) -> None:
    """Raises FileNotFoundError if the file was removed, or another has taken its name."""
    try:
        path_stat, file_stat = os.stat(file.path), os.fstat(file.fd)  # noqa: PTH116 — at every flush
        if (path_stat.st_ino, path_stat.st_dev) == (file_stat.st_ino, file_stat.st_dev):
            return
    except FileNotFoundError:
        pass
    raise not_there(file)


def not_there(file: OpenFile) -> FileNotFoundError:
    return FileNotFoundError(
        errno.ENOENT, f"{file.path} was removed or replaced while the broker had it open"
    )
