"""What a load needs of the filesystem it writes to. All paths are relative to the root.

Two things hold in each of them, whatever happens and whoever else is at work:

- A file that `create` or `replace` has written is whole, or it is not there.
- Of several who create the same path, with different contents, one is told True.

What is being written lies in `CREATING` until then, and stays there if its writer dies.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import msgspec

from loader.errors import StoreError

PENSTOCK: Final = "_penstock"
CREATING: Final = f"{PENSTOCK}/~creating"  # no table can have that name
MOST_BYTES: Final = 512 * 1024 * 1024  # of a file that is read at once


class Entry(msgspec.Struct, frozen=True):
    """What a folder holds."""

    path: str
    is_folder: bool
    size: int
    modified: int  # milliseconds

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Store(Protocol):
    """One root in one filesystem. Raises StoreError, and nothing else. Usable by many threads."""

    @property
    def root(self) -> str:
        """The URI, without a slash at its end."""

    def uri(self, path: str) -> str:
        """What Spark calls it."""

    def prove(self) -> None:
        """Raises StoreError where files cannot be created atomically."""

    def create(self, path: str, data: bytes) -> bool:
        """True: the file is there and has this content; False: it has another one."""

    def replace(self, path: str, data: bytes) -> None:
        """Whether or not it was there."""

    def write(self, path: str, data: bytes) -> None:
        """A file that nobody else knows of. It may be there in part if this fails, and a power loss
        may take it until `sync`."""

    def read(self, path: str, limit: int = MOST_BYTES) -> bytes | None:
        """None if it is not there; StoreError if it is longer than the limit."""

    def list(self, path: str) -> Sequence[Entry]:
        """By name; nothing if there is no such folder."""

    def list_recursively(self, path: str) -> Sequence[Entry]:
        """The files below a folder, by path."""

    def size(self, path: str) -> int | None:
        """Of a file; None if it is not there."""

    def checksum(self, path: str) -> str:
        """Of a file's content, with how it was made: `CRC32C:1a2b3c4d`. Empty if it is not there,
        or the filesystem has none."""

    def rename(self, source: str, target: str) -> bool:
        """Moves a file to a name that no other one ever has. False if the source is not there."""

    def sync(self, paths: Iterable[str]) -> None:
        """A power loss leaves these files, whoever wrote them, and what these folders hold; as far
        as they are there."""

    def delete(self, path: str) -> None:
        """A file, or a folder with all that is in it; nothing if it is not there."""


def check_path(path: str) -> str:
    """The path itself, if it stays below the root."""
    parts = path.split("/")
    if any(part in {"", ".", ".."} for part in parts) or any(char < " " for char in path):
        raise StoreError(f"{path!r} is no path below the root")
    return path
