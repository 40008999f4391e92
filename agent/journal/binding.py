"""Whose a journal is: the machine, and the directory on it. A copy of the directory is another's.

What is copied along with a host's image must not be shipped twice, nor under the same source ids.
A directory that was renamed within its file system, or whose device has another number since the
host restarted, is no copy. One that was moved to another file system cannot be told from a copy.
"""

import os
from pathlib import Path
from typing import Final, Self

import msgspec

from agent.errors import JournalError

_MACHINE_IDS: Final = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


class Binding(msgspec.Struct, frozen=True):
    """A directory on a machine. `machine_id` is empty where machines have none."""

    machine_id: str
    path: str
    device: int
    inode: int

    @classmethod
    def of(cls, directory: Path) -> Self:
        """This machine's; makes the directory if it is not there. Raises JournalError."""
        try:
            make_private(directory)
            status = directory.stat()
        except OSError as error:
            words = f"the journal's directory {directory} cannot be used: {error.strerror}"
            raise JournalError(words) from error
        return cls(_machine_id(), os.path.realpath(directory), status.st_dev, status.st_ino)

    def is_same_directory(self, other: "Binding") -> bool:
        return (
            self.machine_id == other.machine_id
            and self.inode == other.inode
            and (self.device == other.device or self.path == other.path)
        )

    def __str__(self) -> str:
        return f"{self.path} on machine {self.machine_id or 'without id'}"


def make_private(directory: Path) -> None:
    """Nobody else may look into it: what is shipped may be secret."""
    if not directory.is_dir():
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)


def _machine_id() -> str:
    for path in _MACHINE_IDS:
        try:
            found = path.read_text(encoding="ascii", errors="replace").strip()
        except OSError:
            continue
        if found and found != "uninitialized":
            return found
    return ""
