"""A part of a file that is sent without passing through the process."""

from typing import Protocol

import msgspec


class HasFileno(Protocol):
    """An open file, which closes when its last reference is dropped."""

    def fileno(self) -> int: ...


class FileSlice(msgspec.Struct, frozen=True):
    """`length` bytes of `file` from `position` on: the arguments of `sendfile`."""

    file: HasFileno
    position: int
    length: int
