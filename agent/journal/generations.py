"""The journal's files, `journal-{generation}.log`: creates, extends and lists them.

A file is created under a temporary name (`.tmp`), filled with the complete contents, flushed, and
then renamed. Appends are all or nothing: a write that fails half-way is cut off again.
"""

import contextlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from agent.journal.frames import Buffer
from ground.files.durable_files import TEMPORARY_SUFFIX, sync_directory

_NAME: Final = re.compile(r"journal-(\d{20})\.log")
_MODE: Final = 0o600
_MOST_PIECES: Final = 512  # in one writev
_COPIED_AT_ONCE: Final = 1024 * 1024


class GenerationFile:
    """A file to append to. Used by one thread at a time, except for `sync`."""

    def __init__(self, path: Path, fd: int, size: int) -> None:
        self.path = path
        self.size = size
        self.uncut = False  # has half an entry that could not be removed
        self._fd = fd

    @classmethod
    def make(cls, directory: Path, generation: int) -> Self:
        """Creates a file under a temporary name; `publish` renames it."""
        path = path_of(directory, generation)
        temporary_path = path.with_name(path.name + TEMPORARY_SUFFIX)
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        return cls(path, os.open(temporary_path, flags, _MODE), 0)

    @classmethod
    def reopen(cls, path: Path, size: int) -> Self:
        """Opens a file to continue after `size` bytes; the rest is cut off."""
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if os.fstat(fd).st_size > size:
                os.ftruncate(fd, size)
                os.fsync(fd)
        except OSError:
            os.close(fd)
            raise
        return cls(path, fd, size)

    def publish(self) -> None:
        """Flushes the file, and gives it its name."""
        self.sync()
        self.path.with_name(self.path.name + TEMPORARY_SUFFIX).rename(self.path)
        sync_directory(self.path.parent)

    def append(self, pieces: Sequence[Buffer]) -> int:
        """Appends all pieces, or raises OSError and appends nothing. Returns the size."""
        position = self.size
        try:
            for start in range(0, len(pieces), _MOST_PIECES):
                position += _write(self._fd, pieces[start : start + _MOST_PIECES], position)
        except OSError:
            self._cut()
            raise
        written_bytes, self.size = position - self.size, position
        return written_bytes

    @property
    def room(self) -> int | None:
        """The free bytes of the disk, if known. Raises OSError."""
        disk = os.fstatvfs(self._fd)
        return disk.f_bavail * disk.f_frsize if disk.f_blocks else None

    def copy_from(self, other: "GenerationFile", start: int, end: int) -> None:
        """Appends the bytes of another file from `start` to `end`."""
        while start < end:
            piece = os.pread(other._fd, min(_COPIED_AT_ONCE, end - start), start)
            if not piece:
                raise OSError(f"{other.path} ends prematurely at byte {start}")
            start += self.append([piece])

    def sync(self) -> None:
        """Flushes the file. Any thread, also while another thread appends."""
        os.fdatasync(self._fd)

    def close(self) -> None:
        os.close(self._fd)

    def discard(self) -> None:
        """Closes and removes the file, under either name."""
        self.close()
        for path in (self.path, self.path.with_name(self.path.name + TEMPORARY_SUFFIX)):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def _cut(self) -> None:
        try:
            os.ftruncate(self._fd, self.size)
        except OSError:
            self.uncut = True


def path_of(directory: Path, generation: int) -> Path:
    return directory / f"journal-{generation:020}.log"


def found(directory: Path) -> dict[int, Path]:
    """The files by generation, in ascending order."""
    names = ((_NAME.fullmatch(path.name), path) for path in directory.iterdir())
    return dict(sorted((int(name[1]), path) for name, path in names if name))


def before(path: Path) -> list[Path]:
    """All files older than this one."""
    return [file for file in found(path.parent).values() if file.name < path.name]


def remove(paths: Sequence[Path]) -> None:
    """Removes files that are no longer needed. A file that cannot be removed does no harm."""
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def remove_unfinished(directory: Path) -> None:
    """Removes files that a crash has left unfinished."""
    remove([path for path in directory.iterdir() if path.name.endswith(f".log{TEMPORARY_SUFFIX}")])


def _write(fd: int, pieces: Sequence[Buffer], at: int) -> int:
    size = sum(map(len, pieces))
    written_bytes = os.pwritev(fd, pieces, at)
    if written_bytes < size:
        data = memoryview(b"".join(pieces))
        while written_bytes < size:
            written_bytes += os.pwrite(fd, data[written_bytes:], at + written_bytes)
    return size
