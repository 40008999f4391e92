"""The directory that a mirror holds while it runs: one process at a time has it."""

from pathlib import Path
from typing import Final

from ground.directory_lock import DirectoryLock, InUse
from mirror.errors import DirectoryTaken

_LOCK: Final = "lock"


def held(directory: Path) -> DirectoryLock:
    """The directory is there, and this process's until that is closed. Raises DirectoryTaken."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        return DirectoryLock(directory / _LOCK)
    except InUse:
        raise DirectoryTaken(
            f"{directory} is in use: another mirror runs on it. Stop that one, or choose another "
            "`data_dir`"
        ) from None
    except OSError as error:
        raise DirectoryTaken(
            f"{directory} cannot be written to: {error.strerror}: `data_dir` must name a "
            "directory of this user's"
        ) from None
