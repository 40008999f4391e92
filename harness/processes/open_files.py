"""The open files of a process."""

from contextlib import suppress
from pathlib import Path


def open_files(pid: int | None = None) -> dict[int, Path]:
    """Returns a process's descriptors, by default those of this process, with what they refer to: a
    path, or `socket:[…]`. Skips those closed meanwhile."""
    descriptors: dict[int, Path] = {}
    for link in Path(f"/proc/{pid or 'self'}/fd").iterdir():
        with suppress(FileNotFoundError):
            descriptors[int(link.name)] = link.readlink()
    return descriptors
