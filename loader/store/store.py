"""A load's interface to the filesystem that it writes to. All paths are relative to the root.

Every implementation guarantees two things, even after crashes and with concurrent writers:

- A file written by `create` or `replace` is complete, or does not exist.
- If several writers create the same path with different contents, only one gets True.

Unfinished files are in `CREATING`, and stay there if their writer dies.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import msgspec

from loader.errors import StoreError
from loader.values.tables import Digest

PENSTOCK: Final = "_penstock"
CREATING: Final = f"{PENSTOCK}/~creating"  # not a possible name of a table
MOST_BYTES: Final = 512 * 1024 * 1024  # of a file that is read at once


class Entry(msgspec.Struct, frozen=True):
    path: str
    is_folder: bool
    size: int
    modified: int  # milliseconds

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Store(Protocol):
    """A root in one filesystem. Raises only StoreError. May be used by many threads."""

    @property
    def root(self) -> str:
        """The URI, without a final slash."""

    @property
    def stores_checksums(self) -> bool:
        """Whether `checksum` does not read the content, and so cannot notice bytes that changed on
        a disk."""

    def uri(self, path: str) -> str:
        """The URI of a path, as Spark uses it."""

    def prove(self) -> Sequence[Entry]:
        """Checks that files can be created atomically, by creating one in `CREATING`, and returns
        the entries there, with this one. Raises StoreError."""

    def create(self, path: str, data: bytes) -> bool:
        """Creates a file. Returns True if the file now exists with this content, False if it has
        other content."""

    def replace(self, path: str, data: bytes) -> None:
        """Writes the file, whether or not it exists."""

    def write(self, path: str, data: bytes) -> None:
        """Writes a file that no other process uses. It may be incomplete after an error, and may be
        lost by a power loss until `sync`."""

    def read(self, path: str, limit: int = MOST_BYTES) -> bytes | None:
        """The content, or None if the file does not exist. Raises StoreError if it exceeds the
        limit."""

    def list(self, path: str) -> Sequence[Entry]:
        """The entries by name; none if the folder does not exist."""

    def list_recursively(self, path: str) -> Sequence[Entry]:
        """The files below a folder, by path."""

    def size(self, path: str) -> int | None:
        """The size of a file; None if it does not exist."""

    def checksum(self, path: str) -> str:
        """The checksum of a file's content, prefixed by its method, such as `CRC32C:1a2b3c4d`;
        empty if the file does not exist, or the filesystem has no checksums."""

    def digest(self, path: str) -> Digest:
        """The SHA-256 of a file's content, which is read."""

    def rename(self, source: str, target: str) -> bool:
        """Moves a file to a name that is never used for another file. Returns False if the source
        does not exist."""

    def sync(self, paths: Iterable[str]) -> None:
        """Makes these files, whichever process wrote them, and the names in these folders survive a
        power loss. Ignores those that do not exist."""

    def delete(self, path: str) -> None:
        """Deletes a file, or a folder with its content; does nothing if it does not exist."""

    def delete_files(self, paths: Sequence[str]) -> None:
        """Deletes files, in any order; ignores those that do not exist. After StoreError some are
        deleted."""


def check_path(path: str) -> str:
    """Returns the path if it stays below the root."""
    parts = path.split("/")
    if any(part in {"", ".", ".."} for part in parts) or any(char < " " for char in path):
        raise StoreError(f"{path!r} is not a path below the root")
    return path
