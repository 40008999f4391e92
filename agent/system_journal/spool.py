"""The file of a journal input: its entries as lines, which the agent follows like any other file.

    {data_dir}/system-journals/NAME/entries     appended to; what was shipped becomes a hole
    {data_dir}/system-journal-cursors/NAME      the state: the cursor, and the size that it is for

Rule 1: lines are appended before the state is written, and are on disk before it is. So the state
is never ahead of the lines. If there are lines that the state does not know, the cursor of the last
one counts.

Rule 2: a line that was torn by a kill is completed: the same entry makes the same line. If it does
not any more, the rest is left as a line of its own, which becomes a dead letter.

Rule 3: the file keeps its name and inode for life, so that following it leaves no unwatched time.
Room is given back by holes, from after the bytes by which the agent recognizes the file to some
megabytes before the position.

Belongs to one thread; `sync` may be called from any.
"""

import ctypes
import errno
import os
import threading
from pathlib import Path
from typing import Final

import msgspec

from agent.encoding.lines.journal_lines import cursor_of
from ground.files.durable_files import replace_file

_HEAD: Final = 64 * 1024
_PUNCHED_AT_ONCE: Final = 4 * 1024 * 1024
_BLOCK: Final = 4096
_LOOK_BACK: Final = 256 * 1024
_KEEP_SIZE: Final = 0x01
_PUNCH_HOLE: Final = 0x02
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.fallocate64.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


class SpoolState(msgspec.Struct, frozen=True):
    """The last entry that was taken, whether or not it became a line, when the file had `size`
    bytes. `numbers` are those of `Numbering`, `machine` is the id of the host."""

    cursor: str = ""
    micros: int = 0
    size: int = 0
    numbers: dict[str, int] = {}
    punched: int = 0
    machine: str = ""


_NOTHING: Final = SpoolState()
_decode: Final = msgspec.json.Decoder(SpoolState).decode


def read_state(path: Path) -> SpoolState:
    """The state; that of a new input if the file is missing or damaged."""
    try:
        return _decode(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return _NOTHING


def write_state(path: Path, state: SpoolState) -> None:
    replace_file(path, msgspec.json.encode(state), mode=0o600)


class Spool:
    """An open file of entries. Raises OSError."""

    def __init__(self, path: Path, punched: int, kept_bytes: int) -> None:
        """`kept_bytes`: how much before the position is never made a hole."""
        self.path = path
        self.punched = punched
        self._kept_bytes = kept_bytes
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._lock = threading.Lock()
        self._is_dirty = True
        self.size = os.fstat(self._fd).st_size
        line_end = self._end_of_last_line()
        self._torn = os.pread(self._fd, self.size - line_end, line_end)
        self.last_cursor = cursor_before(self._fd, line_end)
        """The cursor of the last complete line when the file was opened; empty if there is none."""

    def append(self, lines: bytes | bytearray) -> int:
        """Appends complete lines. Returns how many of their bytes are in the file, since a write
        may take only some: the next call begins with the others. Raises OSError."""
        present = 0
        if self._torn:
            if lines.startswith(self._torn):
                present = len(self._torn)
            else:
                self._write(b"\n")
            self._torn = b""
        return present + self._write(lines[present:])

    def _write(self, data: bytes | bytearray) -> int:
        self._is_dirty = True  # and again after the write, since `sync` may come in between
        written = os.pwrite(self._fd, data, self.size)
        self._is_dirty = True
        self.size += written
        return written

    def sync(self) -> None:
        """Flushes what was appended. Any thread."""
        with self._lock:
            if self._fd >= 0 and self._is_dirty:
                self._is_dirty = False
                try:
                    os.fdatasync(self._fd)
                except OSError:
                    self._is_dirty = True
                    raise

    def give_back(self, position: int) -> bool:
        """Makes a hole of what was shipped up to `position`. Returns whether it did."""
        end = (position - self._kept_bytes) // _BLOCK * _BLOCK
        start = max(self.punched, _HEAD)
        if end - start < _PUNCHED_AT_ONCE:
            return False
        punch(self._fd, start, end - start)
        self.punched = end
        return True

    def close(self) -> None:
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def _end_of_last_line(self) -> int:
        end = self.size
        while end > 0:
            start = max(0, end - _LOOK_BACK)
            line_end = os.pread(self._fd, end - start, start).rfind(b"\n") + 1
            if line_end:
                return start + line_end
            end = start
        return 0


def cursor_before(fd: int, line_end: int) -> bytes:
    """The cursor of the line that ends there; empty if there is none."""
    start = max(0, line_end - _LOOK_BACK)
    tail = os.pread(fd, line_end - start, start)
    return cursor_of(tail)


def punch(fd: int, start: int, size: int) -> None:
    """Makes a hole. Raises OSError, also where a file system has no holes."""
    if _LIBC.fallocate64(fd, _PUNCH_HOLE | _KEEP_SIZE, start, size):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


NO_HOLES: Final = (
    "journal inputs need a file system with holes in files, such as ext4, XFS, Btrfs or tmpfs"
)


def has_holes(folder: Path) -> bool:
    """Whether the file system of a folder can make holes in files."""
    fd = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(fd, 2 * _BLOCK)
        punch(fd, 0, _BLOCK)
    except OSError as error:
        if error.errno in {errno.EOPNOTSUPP, errno.ENOSYS}:
            return False
        raise
    finally:
        os.close(fd)
    return True
