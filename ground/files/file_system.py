"""The room on a file system: bytes and inodes. A disk without free inodes takes no new file, though
`df -h` shows free space."""

import errno
import os
from pathlib import Path

import msgspec

from ground.printable import error_words

_UNKNOWN = -1


class FileSystem(msgspec.Struct, frozen=True, kw_only=True):
    """The room that this process may use; -1 where it is unknown. Several file systems, such as
    Btrfs, have no fixed number of inodes."""

    total_bytes: int = _UNKNOWN
    free_bytes: int = _UNKNOWN
    total_files: int = _UNKNOWN
    free_files: int = _UNKNOWN

    @classmethod
    def of(cls, path: Path) -> "FileSystem":
        """Returns the room on the file system of an existing path."""
        try:
            stats = os.statvfs(path)
        except OSError:
            return cls()
        return cls(
            total_bytes=stats.f_blocks * stats.f_frsize,
            free_bytes=stats.f_bavail * stats.f_frsize,
            total_files=stats.f_files or _UNKNOWN,
            free_files=stats.f_favail if stats.f_files else _UNKNOWN,
        )


def write_error_words(error: OSError, path: Path) -> str:
    """Returns why a write to a file or folder failed, whether or not it exists. The system has the
    same words for a full disk and for one without inodes."""
    words = error_words(error)
    existing = next((each for each in (path, *path.parents) if each.exists()), path)
    if error.errno == errno.ENOSPC and FileSystem.of(existing).free_files == 0:
        return f"{words}: no free inodes (`df -i` shows them)"
    return words
