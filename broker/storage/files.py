"""Files that close when nobody holds them, and writes that a crash sees whole or not at all.

An `OpenFile` has no `close`: a segment may be deleted, or replaced by its compacted successor,
while a slice of it still waits in some connection's send queue. The last who lets go closes it.
How many there are in this process is known at any time: `OPEN`.

What is owed to the disk must not fail because others have taken all file descriptors: it waits for
one (`sync_file`, `sync_directory`).
"""

import contextlib
import errno
import os
import time
from pathlib import Path
from typing import Final

TEMPORARY_SUFFIX: Final = ".tmp"
OUT_OF_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})
OPEN: Final[set[int]] = set()  # the descriptors of all `OpenFile`s

_PATIENCE_S: Final = 30.0
_GLANCE_S: Final = 0.05


class OpenFile:
    """An open file; closed with its last reference, on whichever thread that is."""

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
            OPEN.discard(self.fd)  # first: the number may be another's in a moment
            os.close(self.fd)


def is_out_of_files(error: BaseException | None) -> bool:
    """Whether that is why: it may be otherwise in a moment."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in OUT_OF_FILES:
            return True
        error = error.__cause__
    return False


def check_there(file: OpenFile) -> None:
    """Raise FileNotFoundError unless it is this file that has its name."""
    try:
        named, held = os.stat(file.path), os.fstat(file.fd)  # noqa: PTH116 — at every flush
        if (named.st_ino, named.st_dev) == (held.st_ino, held.st_dev):
            return
    except FileNotFoundError:
        pass
    raise FileNotFoundError(
        errno.ENOENT, f"{file.path} was removed or replaced while the broker had it open"
    )


def sync_directory(directory: Path | str) -> None:
    """Make created, renamed and removed names in `directory` survive a power loss."""
    fd = _opened(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_file(path: Path | str) -> None:
    """What was written to the file survives a power loss."""
    fd = _opened(path, os.O_RDONLY)
    try:
        os.fdatasync(fd)
    finally:
        os.close(fd)


def _opened(path: Path | str, flags: int) -> int:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return os.open(path, flags | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in OUT_OF_FILES or time.monotonic() > deadline:
                raise
        time.sleep(_GLANCE_S)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the file at `path`: after a crash it holds the old content or the new."""
    replace_file(path, content)
    sync_directory(path.parent)


def replace_file(path: Path, content: bytes) -> None:
    """The same, where the name may wait until the directory is synced."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
