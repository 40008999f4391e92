"""The content of an archive, unpacked into a file without a name.

Readers need only the beginning of the file, a few bytes before their position, and what follows.
So bytes before `start` are left out, and bytes that were read are given back to the disk: the file
has holes there.
"""

import ctypes
import os
import tempfile
import zlib
from bisect import insort
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from agent.recognition.compressed import ArchiveDamaged, unpacked
from agent.recognition.file_properties import read_tail
from agent.recognition.identity import FULL, TAIL

AHEAD: Final = 8 * 1024 * 1024

_MOST_RATIO: Final = 1_000
_MOST_UNPROVEN: Final = 1024 * 1024  # so much may come from any archive
_KEPT_BEFORE: Final = 1024 * 1024
_BLOCK: Final = 4096
_PUNCH_HOLE: Final = 0x03  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE

_fallocate = getattr(ctypes.CDLL(None), "fallocate", None)
if _fallocate is not None:
    _fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


class UnpackedContent:
    """The content up to `end`. `head` has its first bytes, `tail` the last ones; `error` is the
    reason why it cannot be unpacked further; `is_refused`: since there is too much of it;
    `is_complete`: it was unpacked to its end. Takes the archive's descriptor. Raises ArchiveDamaged
    or OSError if it cannot be begun."""

    def __init__(self, archive_fd: int, spool: Path | None, start: int = 0) -> None:
        self.start, self.end = start, 0
        self.archive_position = 0  # up to which the archive was unpacked
        self.head = self.tail = b""
        self.error = ""
        self.is_complete = self.is_refused = False
        self._archive_fd = self._file = -1
        self._unwritten = b""  # a piece that did not fit on the disk yet
        self._asked: list[int] = []  # positions, in order
        self._marks: dict[int, int] = {}
        self._freed_up_to = FULL + _BLOCK
        self._spool = spool
        try:
            self._pieces = unpacked(archive_fd, self._archive_read)
            self._file = _nameless(spool)
        except (OSError, ArchiveDamaged):
            os.close(archive_fd)
            raise
        self._archive_fd = archive_fd

    @property
    def is_over(self) -> bool:
        return self.is_complete or bool(self.error)

    @property
    def fd(self) -> int:
        """The descriptor of the unpacked file."""
        return self._file

    def close(self) -> None:
        """Closes the archive; a source keeps its unpacked file."""
        for fd in (self._archive_fd, self._file):
            if fd >= 0:
                os.close(fd)
        self._archive_fd = self._file = -1

    def advance(self) -> None:
        """Unpacks a piece. Raises OSError if there is no room for it now: then it is kept."""
        if self.is_over:
            return
        try:
            piece = self._unwritten or next(self._pieces, None)
        except ArchiveDamaged as error:
            self.error = str(error)
            return
        if piece is None:
            self.is_complete = True
            return
        self._unwritten = piece
        self._write(piece)
        self._unwritten = b""
        self.head += piece[: FULL - len(self.head)]
        while self._asked and self._asked[0] <= self.end + len(piece):
            position = self._asked.pop(0)
            self._marks[position] = zlib.crc32(self._before(position, piece))
        self.tail = (self.tail + piece)[-TAIL:] if len(piece) < TAIL else piece[-TAIL:]
        self.end += len(piece)

    def _archive_read(self, position: int) -> None:
        self.archive_position = position

    def ask(self, positions: Iterable[int]) -> None:
        """Asks for the marks of these positions."""
        for position in positions:
            if position <= self.end:
                self._marks[position] = zlib.crc32(read_tail(self._file, position))
            else:
                insort(self._asked, position)

    def mark(self, position: int) -> int | None:
        """The checksum of the bytes before a position that was asked for; None if not reached."""
        return self._marks.get(position)

    def limit(self, archive_bytes: int, most_bytes: int) -> None:
        """Stops unpacking if the content is too large, alone or for an archive of that size."""
        if self.error:
            return
        if self.end > most_bytes:
            self.error = f"the content exceeds max_archive_bytes, {most_bytes:,}"
        elif self.end > _MOST_UNPROVEN and self.end > _MOST_RATIO * archive_bytes:
            self.error = f"the content exceeds {_MOST_RATIO:,} times the archive's size"
        self.is_refused = bool(self.error)

    @property
    def end_mark(self) -> int:
        """The checksum of the last bytes."""
        return zlib.crc32(self.tail)

    def free(self, position: int) -> None:
        """Gives blocks before the position back to the disk, if the file system can do so."""
        up_to = (position - _KEPT_BEFORE) // _BLOCK * _BLOCK
        if _fallocate is not None and up_to - self._freed_up_to >= _KEPT_BEFORE:
            start, self._freed_up_to = self._freed_up_to, up_to
            _fallocate(self._file, _PUNCH_HOLE, start, up_to - start)

    def _before(self, position: int, piece: bytes) -> bytes:
        """The bytes before a position within the piece."""
        known_bytes = self.tail + piece
        end = position - self.end + len(self.tail)
        return known_bytes[max(0, end - TAIL) : end]

    def _write(self, piece: bytes) -> None:
        """Writes the first bytes, and those around and after `start`; the rest is a hole."""
        if self.end < FULL:
            _write_whole(self._file, piece[: FULL - self.end], self.end)
        skipped_bytes = max(0, self.start - TAIL - self.end)
        if skipped_bytes < len(piece):
            _write_whole(self._file, piece[skipped_bytes:], self.end + skipped_bytes)


def _write_whole(fd: int, data: bytes, at: int) -> None:
    """Writes all data. On a full disk, a write is cut short, and only the next one fails."""
    written_bytes = 0
    while written_bytes < len(data):
        written_bytes += os.pwrite(fd, data[written_bytes:], at + written_bytes)


def _nameless(directory: Path | None) -> int:
    """A new file without name, which is removed when it is closed."""
    if directory is not None:
        try:
            return os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError:  # the file system does not support it
            pass
    with tempfile.TemporaryFile(dir=directory) as file:
        return os.dup(file.fileno())
