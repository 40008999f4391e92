"""The directory that an audit keeps its store in: one process at a time has it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from audit.errors import AuditFailure

_LOCK: Final = "lock"


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """The directory is there, and this process's. Raises AuditFailure."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise AuditFailure(
            f"{directory} cannot be written to: {error.strerror}: `data_dir` must name a "
            "directory of this user's"
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise AuditFailure(
            f"{directory} is in use: another audit runs on it. Stop that one, or choose another "
            "`data_dir`"
        ) from None
    finally:
        os.close(lock)
