"""Continues a source from its archive, after its file was compressed and deleted.

`identity` decides which archive beside the file belongs to it. The source continues there, at its
position in the unpacked content, and ends with it.

The content is unpacked into a nameless file, a few megabytes ahead of the reader; everything before
the position is compared and left out. So for its readers the source is an ordinary deleted file.
A crash discards the nameless file: the next start finds the archive again, and continues at the
journal's position.

Unpacking is spread over many looks. An archive may be endless: of a source's archive at most
`hold_deleted.bytes` are unpacked, and everything beyond is reported as unknown. `archive_starts`
begins archives that are sources themselves, with a limit of their own.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from agent.files.shared_by_inputs import SharedByInputs
from agent.files.unpacked_content import AHEAD, UnpackedContent
from agent.recognition.compressed import (
    ArchiveDamaged,
    has_compressed_name,
    without_compression,
)
from agent.recognition.file_search import related_names
from agent.recognition.followed import Followed
from agent.recognition.identity import (
    IdentityVerdict,
    archived,
    may_be_archive,
    may_be_archived,
)

_MOST_ARCHIVES: Final = 64
_RETRY_SECONDS: Final = 1.0


class Unpacking:
    """A source, and the archives that may contain its file. `archive` is the archive that contains
    the file, once found; `error` is the reason why it cannot be read further; `complete`: it was
    unpacked to its end."""

    def __init__(self, followed: Followed, archives: list[str], spool: Path | None) -> None:
        self.followed = followed
        self.archive = ""
        self._archives = archives
        self._spool = spool
        self._path = ""
        self._content: UnpackedContent | None = None
        self._end: tuple[bool, str] = False, ""  # of a content that was closed
        self._limit: Callable[[UnpackedContent], None] | None = None
        self._not_before = 0.0
        self.unpacked_bytes = self.compressed_bytes = 0
        self._begun_at, self._begun_position = time.monotonic(), followed.progress.position

    @classmethod
    def begun(
        cls,
        followed: Followed,
        archive: str,
        content: UnpackedContent,
        limit: Callable[[UnpackedContent], None],
    ) -> Self:
        """The unpacking of an archive that is a source itself."""
        unpacking = cls(followed, [], None)
        unpacking.archive = archive
        unpacking._content, unpacking._limit = content, limit
        unpacking._note_progress(content)
        return unpacking

    @property
    def complete(self) -> bool:
        return self._end[0]

    @property
    def error(self) -> str:
        return self._end[1]

    @property
    def is_over(self) -> bool:
        return self.complete or bool(self.error)

    @property
    def bytes_per_second(self) -> float:
        """How fast its content is read since it was begun."""
        read_bytes = self.followed.progress.position - self._begun_position
        return read_bytes / max(1e-3, time.monotonic() - self._begun_at)

    @property
    def original(self) -> str:
        """The name of the file that was compressed; empty until the archive is found."""
        return without_compression(self.archive)

    def may_be_of(self, original: str) -> bool:
        """Whether an archive of that file may still turn out to be the source's."""
        candidates = (self._path, *self._archives) if self._content else self._archives
        return not self.archive and original in map(without_compression, candidates)

    def close(self) -> None:
        """Closes the archive; the source keeps its unpacked file."""
        if self._content is not None:
            self._content.close()
        self._content = None

    def take(self) -> int:
        """A descriptor of the unpacked file, for the source."""
        assert self._content is not None
        return os.dup(self._content.fd)

    def seek(self, shared: SharedByInputs, until: float) -> bool | None:
        """Searches for the source's archive. Returns whether there is one; None if not done yet."""
        start = self.followed.progress.position
        while time.thread_time() < until and shared.now >= self._not_before:
            if self._content is None and not self._open_next(shared):
                return False
            content = self._content
            assert content is not None
            try:
                content.advance()
            except OSError as error:
                self._put_off(shared, error)
                return None
            is_there = content.end >= start
            if is_there and self._is_its(content):
                self.archive = self._path
                return True
            if is_there or content.is_over or not self._begins_alike(content):
                self.close()
        return None

    def go_on(self, shared: SharedByInputs, until: float) -> None:
        """Unpacks more if the reader is close to the end of the unpacked content."""
        content, position = self._content, self.followed.progress.position
        if content is None:
            return
        while (
            not content.is_over
            and content.end - position < AHEAD
            and time.thread_time() < until
            and shared.now >= self._not_before
        ):
            if self._limit is not None:
                self._limit(content)
            elif content.end - content.start > shared.hold.bytes:
                content.error = "unread content exceeds hold_deleted.bytes"
            try:
                content.advance()
            except OSError as error:
                self._put_off(shared, error)
        self._note_progress(content)
        content.free(position)
        if content.is_over:
            self._end = content.is_complete, content.error
            self.close()

    def _note_progress(self, content: UnpackedContent) -> None:
        self.unpacked_bytes, self.compressed_bytes = content.end, content.archive_position

    def _open_next(self, shared: SharedByInputs) -> bool:
        while self._archives:
            self._path = self._archives.pop(0)
            try:
                fd, _ = shared.handles.open(self._path)
                self._content = UnpackedContent(fd, self._spool, self.followed.progress.position)
            except (OSError, ArchiveDamaged):
                continue
            return True
        return False

    def _begins_alike(self, content: UnpackedContent) -> bool:
        return may_be_archived(self.followed.remembered(), content.head)

    def _is_its(self, content: UnpackedContent) -> bool:
        remembered_file, bytes_before = (
            self.followed.remembered(),
            self.followed.before(content.fd),
        )
        return archived(remembered_file, content.head, bytes_before) is IdentityVerdict.COPY

    def _put_off(self, shared: SharedByInputs, error: OSError) -> None:
        """Retries later, when the disk may have room."""
        shared.cannot_read(self._path or self.archive, error)
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
