"""Where tables are read from: a folder, or another store with the same interface.

Nothing here is trusted. A symbolic link is followed only within the given folders, only regular
files are opened, and whoever reads a whole file says how long it may be.
"""

import errno
import os
import stat
from collections.abc import Sequence
from io import FileIO, RawIOBase
from pathlib import Path
from typing import Final, Protocol

import msgspec

from ground.printable import error_words

MOST_ENTRIES: Final = 1_000_000  # of a folder
_PIECE_BYTES: Final = 256 * 1024
_ABSENT: Final = (errno.ENOENT, errno.ENOTDIR)


class Unreadable(Exception):
    """A file or folder cannot be read; the message says why."""


class Entry(msgspec.Struct, frozen=True, order=True):
    """A name in a folder."""

    name: str
    is_folder: bool


class Store(Protocol):
    """The root of tables. Paths are relative to it. Raises only Unreadable. Files may be opened by
    several threads."""

    def list(self, path: str) -> Sequence[Entry]:
        """Returns the entries in the order of their names; none if there is no such folder."""

    def open(self, path: str) -> RawIOBase | None:
        """Opens a file without a buffer; None if it does not exist."""


class LocalStore:
    """A root on a mounted filesystem."""

    def __init__(self, root: Path, within: Sequence[str] = ("",)) -> None:
        """`within`: the paths below the root that may be read."""
        self._root = os.path.realpath(root)
        self._within = [os.path.realpath(os.path.join(self._root, path)) for path in within]  # noqa: PTH118

    def list(self, path: str) -> Sequence[Entry]:
        try:
            with os.scandir(self._real(path)) as entries:
                names: list[Entry] = []
                for entry in entries:
                    if len(names) == MOST_ENTRIES:
                        raise Unreadable(f"has more than {MOST_ENTRIES:,} entries")
                    names.append(Entry(entry.name, _is_folder(entry)))
        except OSError as error:
            if error.errno in _ABSENT:
                return ()
            raise Unreadable(error_words(error)) from None
        return sorted(names)

    def open(self, path: str) -> RawIOBase | None:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
        try:
            fd = os.open(self._real(path), flags)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise Unreadable(error_words(error)) from None
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise Unreadable("is not a file")
        return FileIO(fd)

    def _real(self, path: str) -> str:
        """The path without symbolic links. Raises Unreadable if it leads elsewhere."""
        try:
            real = os.path.realpath(os.path.join(self._root, path))  # noqa: PTH118
        except ValueError:  # a NUL, or what no encoding has
            raise Unreadable("is not the name of a file") from None
        if not any(_is_below(real, folder) for folder in self._within):
            raise Unreadable("is a symbolic link that leads elsewhere")
        return real


def read(store: Store, path: str, limit: int) -> bytes | None:
    """Returns the content of a file; None if it does not exist. Raises Unreadable, also if it is
    longer than the limit."""
    file = store.open(path)
    if file is None:
        return None
    content = bytearray()
    try:
        with file:
            while len(content) <= limit:
                piece = file.read(min(_PIECE_BYTES, limit + 1 - len(content)))
                if not piece:
                    return bytes(content)
                content += piece
    except OSError as error:
        raise Unreadable(error_words(error)) from None
    raise Unreadable(f"is longer than {limit:,} bytes")


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a loop of links
        return False


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
