"""Locks the mirror's data directory: one process uses it at a time."""

from pathlib import Path
from typing import Final

from ground.files.directory_lock import DirectoryLock, InUse
from mirror.errors import DirectoryTaken

_LOCK: Final = "lock"


def held(directory: Path) -> DirectoryLock:
    """Creates the directory if needed, and locks it until the lock is closed. Raises
    DirectoryTaken."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        return DirectoryLock(directory / _LOCK)
    except InUse:
        raise DirectoryTaken(
            f"{directory} is in use by another mirror. Stop that one, or choose another `data_dir`"
        ) from None
    except OSError as error:
        raise DirectoryTaken(
            f"{directory} is not writable: {error.strerror}: `data_dir` must name a "
            "directory of this user"
        ) from None
