"""What a process has open."""

from contextlib import suppress
from pathlib import Path


def open_files(pid: int | None = None) -> dict[int, Path]:
    """Its descriptors, ours if none is named, and what they are of: a path, or `socket:[…]`. Those
    that are closed while they are looked through are passed over."""
    found: dict[int, Path] = {}
    for link in Path(f"/proc/{pid or 'self'}/fd").iterdir():
        with suppress(FileNotFoundError):
            found[int(link.name)] = link.readlink()
    return found
