"""Sources whose file is gone, read from an archive that a rotator made of it.

Which archive beside the file is its own is decided in `identity`. The source goes on there, at its
position in the unpacked content, and is finished with it.

What is unpacked goes into a file without a name, a few megabytes ahead of what was read; what lies
before the position is looked at and left out. So a source that is read from an archive is a deleted
file as any other. A crash forgets the file: the next start finds the archive again, and goes on at
the position that the journal has.

Nothing here takes long: each look does a little. An archive can claim to be endless: of what was
not read yet, at most `hold_deleted.bytes` are unpacked, and what lies beyond is unknown.
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
from agent.recognition.followed import Followed
from agent.recognition.identity import (
    FULL,
    TAIL,
    IdentityVerdict,
    archived,
    may_be_archive,
    may_be_archived,
)
from agent.recognition.seeking import related_names

AHEAD: Final = 8 * 1024 * 1024
_MOST_ARCHIVES: Final = 64
_RETRY_SECONDS: Final = 1.0


class Unpacking:
    """One source, and the archives that may be its file's. `archive` is the one that is, once it is
    found; `error` says why it gives nothing more, `complete` that it has given everything."""

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
        self._unwritten = b""  # a piece for which there was no room yet
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
        """Whether the archive of that file may still turn out to be the one."""
        sought = (self._path, *self._archives) if self._pieces is not None else self._archives
        return not self.archive and original in map(without_compression, sought)

    def close(self) -> None:
        """What was found stays with the source."""
        for fd in (self._fd, self._file):
            if fd >= 0:
                os.close(fd)
        self._fd = self._file = -1
        self._pieces = None

    def take(self) -> int:
        """The file into which its archive is unpacked, for the source to hold."""
        return os.dup(self._file)

    def seek(self, shared: SharedByInputs, until: float) -> bool | None:
        """Whether an archive was found; None as long as that is not known."""
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
        """More of it, if more is wanted."""
        followed = self.followed
        while (
            not self.is_over
            and self._end - followed.progress.position < AHEAD
            and time.thread_time() < until
            and shared.now >= self._not_before
        ):
            if self._end - self._start > shared.hold.bytes:
                self.error = "more of it was not read than hold_deleted.bytes"
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
        """A piece; whether what was read before is behind it now."""
        assert self._pieces is not None
        piece = self._unwritten = self._unwritten or next(self._pieces, b"")
        if not piece:
            self._pieces = None
            return self._end >= self._start
        self._write(piece)
        self._unwritten = b""
        self._head += piece[: FULL - len(self._head)]
        self._end += len(piece)
        return self._end >= self._start

    def _write(self, piece: bytes) -> None:
        """The first bytes, and what stands before and behind the position: the rest is a hole."""
        if self._end < FULL:
            _write_whole(self._file, piece[: FULL - self._end], self._end)
        skipped = max(0, self._start - TAIL - self._end)
        if skipped < len(piece):
            _write_whole(self._file, piece[skipped:], self._end + skipped)

    def _begins_alike(self) -> bool:
        return may_be_archived(self.followed.remembered(), self._head)

    def _is_its(self) -> bool:
        known, before = self.followed.remembered(), self.followed.before(self._file)
        return archived(known, self._head, before) is IdentityVerdict.COPY

    def _put_off(self, shared: SharedByInputs, error: OSError) -> None:
        """There may be room later."""
        shared.cannot_read(self._path, error)
        self._not_before = shared.now + _RETRY_SECONDS


def archives_of(followed: Followed) -> list[str]:
    """Compressed files beside it that may be its own, the newest first."""
    if not followed.fingerprint.size:
        return []
    found = {
        path: status
        for path, status in related_names(followed)
        if has_compressed_name(path)
        and may_be_archive(followed.remembered(), status.st_mtime_ns, status.st_ctime_ns)
    }
    newest = sorted(found, key=lambda path: -found[path].st_ctime_ns)
    return newest[:_MOST_ARCHIVES]


def _write_whole(fd: int, data: bytes, at: int) -> None:
    """Where room runs out, a write is cut short; only the next one fails."""
    written = 0
    while written < len(data):
        written += os.pwrite(fd, data[written:], at + written)


def _nameless(directory: Path | None) -> int:
    """A new file that nobody else can open, and that is gone with its last handle."""
    if directory is not None:
        try:
            return os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError:  # the file system knows of none
            pass
    with tempfile.TemporaryFile(dir=directory) as file:
        return os.dup(file.fileno())
