"""Binds a journal to its machine and directory, so that a copy of the directory is recognised.

Batches copied with a host's image must not be shipped twice, nor lines under the same source ids.
A directory that was renamed within its file system, or whose device number changed at a reboot, is
not a copy. One that was moved to another file system looks like a copy, and is treated as one.
"""

import os
from pathlib import Path
from typing import Final, Self

import msgspec

from agent.errors import JournalError

_MACHINE_IDS: Final = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


class Binding(msgspec.Struct, frozen=True):
    """A directory on a machine. `machine_id` is empty if the machine has none."""

    machine_id: str
    path: str
    device: int
    inode: int

    @classmethod
    def of(cls, directory: Path) -> Self:
        """Returns the binding of a directory on this machine; creates the directory if it is
        missing. Raises JournalError."""
        try:
            make_private(directory)
            status = directory.stat()
        except OSError as error:
            raise JournalError(f"cannot use data_dir {directory}: {error.strerror}") from error
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
    """Creates a directory that only this user can read, since shipped lines may be secret."""
    if not directory.is_dir():
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)


def _machine_id() -> str:
    for path in _MACHINE_IDS:
        try:
            machine_id = path.read_bytes().decode("ascii", errors="replace").strip()
        except OSError:
            continue
        if machine_id and machine_id != "uninitialized":
            return machine_id
    return ""
