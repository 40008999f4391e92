"""Crash-safe file replacement: a crash leaves the old content or the new, never a mixture.

The new content is written to a temporary file beside the old one, synced, and renamed; then the
directory is synced, so that the name survives a power loss too. A replaced file keeps its mode,
unless one is given. A failure leaves the old file and no other. A kill may leave the temporary
file, which the next write of that name replaces. So only one process at a time may write a name,
unless each has its own temporary name.

Syncing must not fail because the process is out of file descriptors: `sync_file` and
`sync_directory` wait for one.
"""

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

TEMPORARY_SUFFIX: Final = ".tmp"
OUT_OF_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})

_PATIENCE_S: Final = 30.0
_GLANCE_S: Final = 0.05


def replace_file(
    path: Path, content: bytes, *, mode: int | None = None, sync_name: bool = True
) -> None:
    """Replaces the content of the file at `path` atomically. Raises OSError.

    Use `sync_name=False` if the caller syncs the directory before anything relies on the name.
    """
    with replacing(path, mode=mode, sync_name=sync_name) as file:
        file.write(content)


@contextmanager
def replacing(
    path: Path, *, mode: int | None = None, temporary: Path | None = None, sync_name: bool = True
) -> Iterator[BinaryIO]:
    """Opens a file that replaces `path` when the block ends without an error.

    `temporary` must be in the same directory; default `NAME.tmp`.
    """
    temporary = temporary or path.with_name(path.name + TEMPORARY_SUFFIX)
    temporary.unlink(missing_ok=True)
    fd = _created(temporary, _mode_of(path) if mode is None else mode)
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
            file.flush()
            os.fsync(fd)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    if sync_name:
        sync_directory(path.parent)


def sync_directory(directory: Path | str) -> None:
    """Makes created, renamed and removed names in `directory` survive a power loss."""
    fd = _opened(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_file(path: Path | str) -> None:
    """Makes the file's content survive a power loss."""
    fd = _opened(path, os.O_RDONLY)
    try:
        os.fdatasync(fd)
    finally:
        os.close(fd)


def _mode_of(path: Path) -> int | None:
    try:
        return stat.S_IMODE(path.lstat().st_mode)
    except FileNotFoundError:
        return None


def _created(path: Path, mode: int | None) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    fd = os.open(path, flags, 0o666 if mode is None else mode)
    # The umask may have cleared bits. Not every file system supports modes.
    if mode is not None and stat.S_IMODE(os.fstat(fd).st_mode) != mode:
        os.fchmod(fd, mode)
    return fd


def _opened(path: Path | str, flags: int) -> int:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return os.open(path, flags | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in OUT_OF_FILES or time.monotonic() > deadline:
                raise
        time.sleep(_GLANCE_S)
