"""Writes or syncs many files with one release of the interpreter lock.

A thread that releases it gets it back when the event loop sleeps: that costs more than a `pwrite`,
or an `fdatasync` on a fast disk. `_many_files.c` does the work; if it is not compiled, the calls
are made one after the other. On any thread; both block.
"""

import os
from collections.abc import Sequence

from broker.storage.segments.files import OpenFile, check_there, not_there

try:
    from broker.storage.segments import _many_files as compiled
except ImportError:
    NATIVE = False
else:
    NATIVE = True

_GONE = -1

Piece = tuple[int, bytes, int]  # a descriptor, the bytes, and their position
Fault = OSError | None


def sync_all(files: Sequence[OpenFile], *, native: bool = NATIVE) -> list[Fault]:
    """Syncs each file, and checks that it still has its name; returns the error of each file."""
    if not native:
        return [_synced(file) for file in files]
    error_numbers = compiled.sync([(file.fd, os.fsencode(file.path)) for file in files])
    if not any(error_numbers):
        return [None] * len(error_numbers)
    return [
        not_there(file) if error_number == _GONE else _fault(error_number)
        for file, error_number in zip(files, error_numbers, strict=True)
    ]


def write_all(pieces: Sequence[Piece], *, native: bool = NATIVE) -> list[Fault]:
    """Writes each piece; returns the error of each piece."""
    if not native:
        return [_written(piece) for piece in pieces]
    return [_fault(error_number) for error_number in compiled.write(list(pieces))]


def _fault(number: int) -> Fault:
    return OSError(number, os.strerror(number)) if number else None


def _synced(file: OpenFile) -> Fault:
    try:
        os.fdatasync(file.fd)
        check_there(file)
    except OSError as error:
        return error
    return None


def _written(piece: Piece) -> Fault:
    fd, content, position = piece
    try:
        while content:
            written_bytes = os.pwrite(fd, content, position)
            content, position = content[written_bytes:], position + written_bytes
    except OSError as error:
        return error
    return None
