"""Continues a source from its archive, after its file was compressed and deleted.

`identity` decides which archive beside the file belongs to it. The source continues there, at its
position in the unpacked content, and ends with it.

The content is unpacked into a nameless file, a few megabytes ahead of the reader; everything before
the position is compared and left out. So for its readers the source is an ordinary deleted file.
A crash discards the nameless file: the next start finds the archive again, and continues at the
journal's position.

Unpacking is spread over many looks. An archive may be endless: at most `hold_deleted.bytes` of
unread content are unpacked, and everything beyond is reported as unknown.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from agent.files.shared_by_inputs import SharedByInputs
from agent.recognition.compressed import (
    ArchiveDamaged,
    has_compressed_name,
    unpacked,
    without_compression,
)
from agent.recognition.file_search import related_names
from agent.recognition.followed import Followed
from agent.recognition.identity import (
    FULL,
    TAIL,
    IdentityVerdict,
    archived,
    may_be_archive,
    may_be_archived,
)

AHEAD: Final = 8 * 1024 * 1024
_MOST_ARCHIVES: Final = 64
_RETRY_SECONDS: Final = 1.0


class Unpacking:
    """A source, and the archives that may contain its file. `archive` is the archive that contains
    the file, once found; `error` is the reason why it cannot be read further; `complete`: it was
    unpacked to its end."""

    def __init__(self, followed: Followed, archives: list[str], spool: Path | None) -> None:
        self.followed = followed
        self.archive = ""
        self.complete = False
        self.error = ""
        self._archives = archives
        self._spool = spool
        self._start = followed.progress.position
        self._fd = self._file = -1
        self._path = ""
        self._pieces: Iterator[bytes] | None = None
        self._unwritten = b""  # a piece that did not fit on the disk yet
        self._head = b""
        self._end = 0  # of what was unpacked
        self._not_before = 0.0

    @property
    def is_over(self) -> bool:
        return self.complete or bool(self.error)

    @property
    def original(self) -> str:
        """The name of the file that was compressed; empty until the archive is found."""
        return without_compression(self.archive)

    def may_be_of(self, original: str) -> bool:
        """Whether an archive of that file may still turn out to be the source's."""
        candidates = (self._path, *self._archives) if self._pieces is not None else self._archives
        return not self.archive and original in map(without_compression, candidates)

    def close(self) -> None:
        """Closes the archive; the source keeps its unpacked file."""
        for fd in (self._fd, self._file):
            if fd >= 0:
                os.close(fd)
        self._fd = self._file = -1
        self._pieces = None

    def take(self) -> int:
        """A descriptor of the unpacked file, for the source."""
        return os.dup(self._file)

    def seek(self, shared: SharedByInputs, until: float) -> bool | None:
        """Searches for the source's archive. Returns whether there is one; None if not done yet."""
        while time.thread_time() < until and shared.now >= self._not_before:
            if self._pieces is None and not self._open_next(shared):
                return False
            try:
                is_there = self._advance()
            except ArchiveDamaged as error:
                is_there = self._end >= self._start
                self.error = str(error)
            except OSError as error:
                self._put_off(shared, error)
                return None
            if is_there and self._is_its():
                self.archive = self._path
                return True
            if is_there or self.error or self._pieces is None or not self._begins_alike():
                self.error = ""
                self.close()
        return None

    def go_on(self, shared: SharedByInputs, until: float) -> None:
        """Unpacks more if the reader is close to the end of the unpacked content."""
        followed = self.followed
        while (
            not self.is_over
            and self._end - followed.progress.position < AHEAD
            and time.thread_time() < until
            and shared.now >= self._not_before
        ):
            if self._end - self._start > shared.hold.bytes:
                self.error = "unread content exceeds hold_deleted.bytes"
                break
            try:
                if self._pieces is not None:
                    self._advance()
            except ArchiveDamaged as error:
                self.error = str(error)
            except OSError as error:
                self._put_off(shared, error)
            self.complete = self._pieces is None
        if self.is_over:
            self.close()

    def _open_next(self, shared: SharedByInputs) -> bool:
        while self._archives:
            self._path = self._archives.pop(0)
            try:
                self._fd, _ = shared.handles.open(self._path)
                self._pieces = unpacked(self._fd)
                self._file = _nameless(self._spool)
            except (OSError, ArchiveDamaged):
                self.close()
                continue
            self._head, self._unwritten, self._end = b"", b"", 0
            return True
        return False

    def _advance(self) -> bool:
        """Unpacks a piece. Returns whether the source's position was reached."""
        assert self._pieces is not None
        piece = self._unwritten or next(self._pieces, None)
        if piece is None:
            self._pieces = None
            return self._end >= self._start
        self._unwritten = piece
        self._write(piece)
        self._unwritten = b""
        self._head += piece[: FULL - len(self._head)]
        self._end += len(piece)
        return self._end >= self._start

    def _write(self, piece: bytes) -> None:
        """Writes the first bytes, and those around and after the position; the rest is a hole."""
        if self._end < FULL:
            _write_whole(self._file, piece[: FULL - self._end], self._end)
        skipped_bytes = max(0, self._start - TAIL - self._end)
        if skipped_bytes < len(piece):
            _write_whole(self._file, piece[skipped_bytes:], self._end + skipped_bytes)

    def _begins_alike(self) -> bool:
        return may_be_archived(self.followed.remembered(), self._head)

    def _is_its(self) -> bool:
        remembered_file, bytes_before = self.followed.remembered(), self.followed.before(self._file)
        return archived(remembered_file, self._head, bytes_before) is IdentityVerdict.COPY

    def _put_off(self, shared: SharedByInputs, error: OSError) -> None:
        """Retries later, when the disk may have room."""
        shared.cannot_read(self._path, error)
        self._not_before = shared.now + _RETRY_SECONDS


def archives_of(followed: Followed) -> list[str]:
    """Compressed files beside a source's file that may contain it, newest first."""
    if not followed.fingerprint.size:
        return []
    statuses = {
        path: status
        for path, status in related_names(followed)
        if has_compressed_name(path)
        and may_be_archive(followed.remembered(), status.st_mtime_ns, status.st_ctime_ns)
    }
    newest_paths = sorted(statuses, key=lambda path: -statuses[path].st_ctime_ns)
    return newest_paths[:_MOST_ARCHIVES]


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
