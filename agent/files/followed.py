"""One file that is followed: what is known of it, and its bytes.

Every read is checked: the file must still begin as its fingerprint says, and the bytes before the
position must be those that were read there last; over a restart, a mark of them is remembered. They
are looked at after the data, so that data of a file that was truncated and written anew meanwhile
is never taken for that of the old one. What fails is `suspect`; nothing is returned, and the next
look finds out what it is. A file that is opened again must have been made when it was before.
"""

import contextlib
import os
import stat
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Final

from agent.blind_times import Traces
from agent.files.births import born_ns
from agent.files.fingerprints import FULL, TAIL, begins, fingerprint, read_head, read_tail
from agent.files.handles import Handles, there_millis
from agent.files.inputs import FileInput
from agent.files.listing import Sighting
from agent.files.names import DELETED
from agent.runs import Fingerprint, KnownSource, Progress, SourceId

_MILLIS: Final = 1_000_000

Identity = tuple[int, int]
"""Device and inode: of two files that exist at the same time, never the same."""


class Followed:
    """A source, or, while `source` is empty, a file of which it is not clear yet what it is."""

    def __init__(
        self, path: str, identity: Identity, status: os.stat_result | None, handles: Handles
    ) -> None:
        self.source = SourceId("")
        self.input = ""
        self.topic = ""
        self.path = path
        self.current_path = path
        self.identity = identity
        self.fingerprint = Fingerprint(0, b"")
        self.head = b""  # what the fingerprint is of, where it was seen
        self.destroyed_up_to = 0  # its size before it was truncated, if the copy has less
        self.size = status.st_size if status else 0
        self.mtime_ns = status.st_mtime_ns if status else 0
        self.ended = False
        self.idle_since = 0.0
        self.born_ns = 0  # when its file was made, if that is known
        self.there_millis = 0  # a time at which its file was there, if it has no handle
        self.looked_millis = 0  # when its size was last seen: what is beyond is younger
        self.real_path = ""  # where a symbolic link led, when it was last opened
        self.met_millis = 0  # when nobody had looked at it yet
        self.begun_ns = 0  # when its first byte may have been written, if that is known
        self.forgotten_before = -1  # below this ledger entry it may have been another source
        self.sealed = False  # it was gone before anything was added to what had been seen
        self.traces: Traces | None = None  # what became of its file, if its end was not seen
        self.unpacked: KnownSource | None = None  # as it was, if it is read from an archive
        # How it stands, for those who follow it.
        self.fd: int | None = None
        self.watch: int | None = None
        self.suspect = False
        self.trouble: OSError | None = None
        self.roused_at = 0.0
        self.deleted_at: float | None = None
        self.deleted_mtime_ns = 0  # as it was when it was seen to have no name
        self.missing_since: float | None = None
        self.like: dict[Followed, int] = {}  # what it may be a copy of, and how much was compared
        self.judged_size = -1  # when it was last found to be something that may be a copy
        self.reported = 0  # bytes of the fingerprint that others know of
        self.noted = b""  # the head under which `originals` finds it
        self.served = 0
        self._progress = Progress(0)
        self._handles = handles
        self._chunk: tuple[int, bytes] | None = None
        self._tail = b""
        self._mark = 0  # of the tail, if only that is known

    def __repr__(self) -> str:
        return f"<{self.source or 'undecided'} {self.current_path!r} {self._progress.position}>"

    @property
    def progress(self) -> Progress:
        return self._progress

    @progress.setter
    def progress(self, progress: Progress) -> None:
        if progress.position != self._progress.position:
            self._remember_tail(progress.position)
        self._progress = progress

    @property
    def unread(self) -> int:
        return max(0, self.size - self._progress.position)

    @property
    def tail(self) -> bytes:
        """What was last read before the position, as far as that is known."""
        return self._tail

    @property
    def mark(self) -> int:
        """Of what stands before the position; 0 if that is not known."""
        if not self._tail:
            return self._mark
        is_whole = len(self._tail) == min(TAIL, self._progress.position)
        return zlib.crc32(self._tail) if is_whole else 0

    @property
    def nameless(self) -> bool:
        return self.deleted_at is not None

    @property
    def is_away(self) -> bool:
        """Whether nobody can look at its file, and nobody knows that it does not exist."""
        return self.missing_since is not None and self.fd is None

    @property
    def leaving(self) -> bool:
        """Whether it can be over some day without anything else happening to it."""
        return self.nameless or self.missing_since is not None or self.current_path != self.path

    def become(self, source: SourceId, of: FileInput, progress: Progress) -> None:
        self.source, self.input, self.topic = source, of.name, of.topic
        self._progress = progress

    def resume(self, known: KnownSource) -> None:
        self.source, self.input, self.topic = known.id, known.input, known.topic
        self.path = known.path
        if known.last_path and known.size > self.size:
            self.destroyed_up_to = known.size
        self.fingerprint = known.fingerprint
        self.reported = known.fingerprint.size
        self.there_millis = known.seen_millis
        self.looked_millis = max(self.looked_millis, known.seen_millis)
        self.real_path = known.real_path
        self.born_ns = self.born_ns or known.born_ns
        self.begun_ns = known.begun_ns
        self.forgotten_before = known.forgotten_before
        position = known.progress.position
        has_less = known.last_path and self.size == known.size < position  # as a copy may
        self._progress = replace(known.progress, mark=0)
        self._mark = 0 if has_less else known.progress.mark

    def known(self, wall: float) -> KnownSource:
        """`seen_millis` is a time at which its file was there: another one in its place is made
        after it."""
        if self.unpacked is not None:
            progress = replace(self._progress, mark=self.mark)
            return replace(self.unpacked, progress=progress, finished=self.ended)
        there = self.there_millis if self.fd is None else there_millis(self.fd, wall)
        return KnownSource(
            id=self.source,
            input=self.input,
            topic=self.topic,
            path=self.path,
            device=self.identity[0],
            inode=self.identity[1],
            fingerprint=self.fingerprint,
            progress=replace(self._progress, mark=self.mark),
            last_path="" if self.current_path == self.path else self.current_path,
            size=max(self.size, self.destroyed_up_to),
            finished=self.ended,
            seen_millis=max(there, self.born_ns // _MILLIS + 1),
            real_path=self.real_path,
            born_ns=self.born_ns,
            begun_ns=self.begun_ns,
            forgotten_before=self.forgotten_before,
        )

    def read(self, most: int, position: int | None = None) -> bytes:
        """At most so many bytes from there on; none if there are none now. May raise OSError."""
        if position is None:
            position = self._progress.position
        try:
            data = self._read(most, position)
        except OSError as error:
            self._handles.trouble(self, error)
            raise
        if data:
            self._chunk = position, data
            self.served = self._handles.use(self)
        return data

    def doubt(self) -> None:
        """It may not be any more what it was: to be looked into."""
        self.suspect = True
        self._handles.notable.add(self)

    def open(self) -> int | None:
        """A handle, if its file is still where it was last seen; else it is suspect."""
        if self.fd is not None:
            return self.fd
        try:
            fd, status = self._handles.open(self.current_path)
        except (FileNotFoundError, NotADirectoryError):
            self.doubt()
            return None
        try:
            same = (status.st_dev, status.st_ino) == self.identity
            same = same and self.may_be_born(born_ns(fd))
            same = same and begins(self.fingerprint, read_head(fd))
        except OSError:
            os.close(fd)
            raise
        if not same:
            os.close(fd)
            self.doubt()
            return None
        self.hold(fd)
        return fd

    def hold(self, fd: int) -> None:
        """It is its file's."""
        self.born_ns = born_ns(fd)
        self.begun_ns = self.begun_ns or self.born_ns
        self.sealed = False
        self.real_path = _real_path(fd, self.current_path)
        self._handles.hold(self, fd)

    def may_be_born(self, when: int) -> bool:
        """Whether its file can be one that was made then."""
        if not when:
            return True
        if self.born_ns:
            return when == self.born_ns
        return not self.there_millis or when <= self.there_millis * _MILLIS

    def status(self) -> os.stat_result | None:
        """As it is now; None if it cannot be found where it was."""
        fd = self.open()
        return None if fd is None else os.fstat(fd)

    def is_intact(self) -> bool:
        """Whether it still has what was read of it; if not, it is suspect. Its fingerprint covers
        from now on what it can."""
        fd = self.open()
        return fd is not None and self._is_intact(fd, self._progress.position)

    def settle(self) -> None:
        """It is this file: what was read last is looked up, if it is not known any more."""
        fd = self.fd
        position = self._progress.position
        if fd is not None and self.is_intact() and not self._tail:
            tail = read_tail(fd, position)
            self._tail = tail if len(tail) == min(TAIL, position) else b""

    def continues_in(self, fd: int) -> bool:
        """Whether another file has what was read of this one, as far as can be told."""
        status = os.fstat(fd)
        position = self._progress.position
        if not stat.S_ISREG(status.st_mode) or status.st_size < position:
            return False
        head = read_head(fd)
        alike = begins(self.fingerprint, head)
        if len(head) < self.fingerprint.size:  # it has grown since it was copied
            alike = len(head) > 0 and self.head.startswith(head)
        return self.fingerprint.size > 0 and alike and self.has_tail(fd)

    def has_tail(self, fd: int) -> bool:
        """Whether a file has what was read last of this one, where it was read."""
        position, tail = self._progress.position, self._tail
        if tail:
            return os.pread(fd, len(tail), position - len(tail)) == tail
        if self._mark:
            tail = read_tail(fd, position)
            if zlib.crc32(tail) != self._mark:
                return False
            self._tail = tail
        return True

    def move(self, at: Sighting, head: bytes) -> None:
        """It has another file from now on: one that has its bytes, or the first ones of them."""
        before = max(self.size, self.destroyed_up_to)
        self.destroyed_up_to = before if before > max(at.size, self._progress.position) else 0
        self.current_path, self.identity = at.path, at.identity
        self.size, self.mtime_ns = at.size, at.mtime_ns
        self.deleted_at = self.missing_since = None
        self.head, self.fingerprint = head, fingerprint(head)
        if self.size < self._progress.position:
            self._tail, self._mark = b"", 0

    def _read(self, most: int, position: int) -> bytes:
        if self.suspect or (fd := self.open()) is None:
            return b""
        data = os.pread(fd, most, position)
        return data if self._is_intact(fd, position) else b""

    def _is_intact(self, fd: int, position: int) -> bool:
        if position == self._progress.position and not self.has_tail(fd):
            self.doubt()
            return False
        head = read_head(fd)
        if not begins(self.fingerprint, head):
            self.doubt()
            return False
        self._remember_head(head)
        return True

    def _remember_head(self, head: bytes) -> None:
        if len(head) > len(self.head):
            self.head = head
            self._handles.notable.add(self)
        if len(head) > self.fingerprint.size:
            self.fingerprint = fingerprint(head)

    def take_fingerprint(self) -> bytes:
        """The first bytes, which its fingerprint covers from now on; none if it is suspect."""
        fd = self.open()
        head = b"" if fd is None else read_head(fd)
        if not begins(self.fingerprint, head):
            self.doubt()
            return b""
        self._remember_head(head)
        return head

    def reports_fingerprint(self) -> bool:
        """Whether it has grown so much that it is worth telling; then it counts as told."""
        size = self.fingerprint.size
        if size < 2 * self.reported and not self.reported < size == FULL:
            return False
        told, self.reported = self.reported, size
        return size > told

    def _remember_tail(self, position: int) -> None:
        start, data = self._chunk or (0, b"")
        before = self._tail if start == self._progress.position else b""
        self._chunk, self._tail, self._mark = None, b"", 0
        if start < position <= start + len(data):
            tail = data[max(0, position - start - TAIL) : position - start]
            self._tail = (before + tail)[-TAIL:] if len(tail) < TAIL else tail


def _real_path(fd: int, path: str) -> str:
    """Where an open file is, if it is not where its path says: behind symbolic links."""
    with contextlib.suppress(OSError):
        real = os.fspath(Path(f"/proc/self/fd/{fd}").readlink())
        if real != path and not real.endswith(DELETED):
            return real
    return ""
