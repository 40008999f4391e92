"""The audit's data directory, which one process at a time can lock."""

from pathlib import Path
from typing import Final

from audit.errors import AuditFailure
from ground.files.directory_lock import DirectoryLock, InUse

_LOCK: Final = "lock"


def held(directory: Path) -> DirectoryLock:
    """Creates the directory if necessary, locks it, and returns the lock. Raises AuditFailure."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        return DirectoryLock(directory / _LOCK)
    except InUse:
        raise AuditFailure(
            f"{directory} is in use by another audit: stop that one, or choose another `data_dir`"
        ) from None
    except OSError as error:
        raise AuditFailure(
            f"{directory} cannot be written to: {error.strerror}: `data_dir` must name a "
            "directory that this user owns"
        ) from None
