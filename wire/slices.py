"""A stretch of a file that is sent as it is, without passing through the process."""

from typing import Protocol

import msgspec


class HasFileno(Protocol):
    """An open file. Whoever holds it keeps it open: files close when nobody holds them."""

    def fileno(self) -> int: ...


class FileSlice(msgspec.Struct, frozen=True):
    """`length` bytes of `file`, from `position` on: what `sendfile` takes."""

    file: HasFileno
    position: int
    length: int
