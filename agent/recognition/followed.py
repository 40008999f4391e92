"""A followed file: its state, and access to its bytes.

Every read is checked against rules 4 and 5 of `identity`, after the data was read, so that data of
a file that was truncated and rewritten meanwhile is never taken for the old file's. A file that
fails is `suspect`: the read returns nothing, and the next look identifies the file.

Parts of the state are values that other modules own and change: `attention` owns `Look`,
`open_file_limit` owns `Handle` (and `trouble`), `source_starts` owns `Likeness`, `source_ends` owns
`SourceEnd`, except for what comes from a journal. Everything else is changed here.
"""

import contextlib
import os
import zlib
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from agent.accounting.runs import Fingerprint, KnownSource, Progress, SourceId
from agent.configuration.file_inputs import FileInput
from agent.history.blind_times import Traces
from agent.open_files.open_file_limit import Handle, Handles, there_millis
from agent.open_files.paths import DELETED
from agent.recognition.compressed import has_compressed_name
from agent.recognition.file_properties import born_ns, read_head, read_tail
from agent.recognition.identity import (
    FULL,
    NONE,
    TAIL,
    Identity,
    IdentityVerdict,
    RememberedFile,
    SeenFile,
    begins,
    fingerprint,
    goes_on,
    may_continue,
    reopened,
)

_MILLIS: Final = 1_000_000
_AT_ITS_BEGINNING: Final = Progress(0)


class Look(msgspec.Struct):
    """The file's state at the last look."""

    size: int = 0
    mtime_ns: int = 0
    met_millis: int = 0  # the look before the first one at this file
    looked_millis: int = 0  # when its size was last seen: bytes beyond are younger
    idle_since: float = 0.0
    roused_at: float = 0.0
    patience: float = 0.0  # how long it stays busy after that
    watch: int | None = None


class Likeness(msgspec.Struct):
    """The originals that a file may be a copy of, with the sizes compared; and the file's size when
    it was last judged to be a possible copy."""

    like: "dict[Followed, int]" = {}
    judged_size: int = -1


class SourceEnd(msgspec.Struct):
    """The end of a source and its file."""

    ended: bool = False
    destroyed_up_to: int = 0  # its size before it was truncated, if the copy has less
    traces: Traces | None = None  # if its end was not seen
    why: str = ""  # the reason, if traces do not show it
    unpacked: KnownSource | None = None  # its former state, if it is read from an archive


class FileContent:
    """The known bytes of a file: its beginning, and the bytes last read. Does no I/O."""

    def __init__(self, progress: Progress = _AT_ITS_BEGINNING) -> None:
        self.fingerprint = NONE
        self.head = b""  # the bytes of the fingerprint, if this process has seen them
        self.reported = 0  # the size of the fingerprint last reported
        self.tail = b""  # the bytes last read before the position
        self.mark_alone = 0  # the checksum of the tail, if the tail is unknown
        self.progress = progress
        self._chunk: tuple[int, bytes] | None = None

    @property
    def mark(self) -> int:
        """The checksum of the tail; 0 if unknown."""
        if not self.tail:
            return self.mark_alone
        is_whole = len(self.tail) == min(TAIL, self.progress.position)
        return zlib.crc32(self.tail) if is_whole else 0

    def resume(self, known: KnownSource, *, has_less: bool) -> None:
        """Restores a source. `has_less`: the file is shorter than the position."""
        self.fingerprint = known.fingerprint
        self.reported = known.fingerprint.size
        self.progress = replace(known.progress, mark=0)
        self.mark_alone = 0 if has_less else known.progress.mark

    def note_chunk(self, position: int, data: bytes) -> None:
        self._chunk = position, data

    def go_to(self, progress: Progress) -> None:
        if progress.position != self.progress.position:
            self._remember_tail(progress.position)
        self.progress = progress

    def show(self, head: bytes) -> bool:
        """Takes the first bytes of the file. Returns whether there are more than before."""
        has_grown = len(head) > len(self.head)
        if has_grown:
            self.head = head
        if len(head) > self.fingerprint.size:
            self.fingerprint = fingerprint(head)
        return has_grown

    def move(self, head: bytes, size: int) -> None:
        self.head, self.fingerprint = head, fingerprint(head)
        if size < self.progress.position:
            self.tail, self.mark_alone = b"", 0

    def tell(self) -> None:
        self.reported = self.fingerprint.size

    def reports_fingerprint(self) -> bool:
        """Whether the fingerprint has grown enough to report it; then it counts as reported."""
        size = self.fingerprint.size
        if size < 2 * self.reported and not self.reported < size == FULL:
            return False
        previous_size, self.reported = self.reported, size
        return size > previous_size

    def _remember_tail(self, position: int) -> None:
        start, data = self._chunk or (0, b"")
        bytes_before = self.tail if start == self.progress.position else b""
        self._chunk, self.tail, self.mark_alone = None, b"", 0
        if start < position <= start + len(data):
            tail = data[max(0, position - start - TAIL) : position - start]
            self.tail = (bytes_before + tail)[-TAIL:] if len(tail) < TAIL else tail


class Followed:
    """A source; or a file that is not identified yet, while `source` is empty."""

    def __init__(
        self, path: str, identity: Identity, status: os.stat_result | None, handles: Handles
    ) -> None:
        # Identity.
        self.source = SourceId("")
        self.input = ""
        self.topic = ""
        self.identity = identity
        self.born_ns = 0  # creation time of its file, if known
        self.begun_ns = 0  # the earliest time of its first byte, if known
        self.forgotten_before = -1  # below this ledger entry it may have been another source
        self.content = FileContent()
        # Names.
        self.path = path  # the first
        self.current_path = path
        self.real_path = ""  # the target of a symbolic link, when it was last opened
        self.missing_since: float | None = None
        self.deleted_at: float | None = None
        self.deleted_mtime_ns = 0  # when it was found deleted
        # State.
        self.look = Look(status.st_size, status.st_mtime_ns) if status else Look()
        self.handle = Handle()
        self.likeness = Likeness()
        self.end = SourceEnd()
        self.suspect = False
        self.trouble: OSError | None = None  # why it cannot be read
        self.sealed = False  # it was removed before anything was added to the bytes seen
        self.served = 0
        self._handles = handles

    def __repr__(self) -> str:
        return f"<{self.source or 'undecided'} {self.current_path!r} {self.progress.position}>"

    @property
    def fd(self) -> int | None:
        return self.handle.fd

    @property
    def size(self) -> int:
        return self.look.size

    @property
    def mtime_ns(self) -> int:
        return self.look.mtime_ns

    @property
    def idle_since(self) -> float:
        return self.look.idle_since

    @property
    def fingerprint(self) -> Fingerprint:
        return self.content.fingerprint

    @property
    def progress(self) -> Progress:
        return self.content.progress

    @progress.setter
    def progress(self, progress: Progress) -> None:
        self.content.go_to(progress)

    @property
    def mark(self) -> int:
        """The checksum of the bytes before the position; 0 if unknown."""
        return self.content.mark

    @property
    def unread(self) -> int:
        return max(0, self.look.size - self.content.progress.position)

    @property
    def is_unseen(self) -> bool:
        return not (self.fingerprint.size or self.progress.position)

    @property
    def nameless(self) -> bool:
        return self.deleted_at is not None

    @property
    def is_away(self) -> bool:
        """Whether the source's file is not accessible, but may still exist."""
        return self.missing_since is not None and self.handle.fd is None

    @property
    def is_archive(self) -> bool:
        """Whether the source is an archive that is read, and not a file that became one."""
        return self.end.unpacked is not None and has_compressed_name(self.path)

    @property
    def leaving(self) -> bool:
        """Whether the source ends after some time without further changes."""
        return self.nameless or self.missing_since is not None or self.current_path != self.path

    # Identity

    def become(self, source: SourceId, of: FileInput, progress: Progress) -> None:
        self.source, self.input, self.topic = source, of.name, of.topic
        self.content.progress = progress

    def belong(self, of: FileInput) -> None:
        """Assigns the file to an input, before it is identified."""
        self.input = of.name

    def may_be_forgotten(self, before: int) -> None:
        self.forgotten_before = before

    def follow_on(self, old: "Followed", begun_ns: int, *, is_meant: bool) -> None:
        """Continues a truncated file. If the input does not match its path, the file ends like any
        renamed file."""
        self.begun_ns = begun_ns
        if not is_meant:
            self.path = old.path

    def resume(self, known: KnownSource) -> None:
        self.source, self.input, self.topic = known.id, known.input, known.topic
        self.path = known.path
        destroyed_up_to = max(known.destroyed_up_to, known.size if known.last_path else 0)
        if destroyed_up_to > self.size:
            self.end = SourceEnd(destroyed_up_to=destroyed_up_to)
        self._handles.remember(self, known.seen_millis)
        self.real_path = known.real_path
        self.born_ns = self.born_ns or known.born_ns
        self.begun_ns = known.begun_ns
        self.forgotten_before = known.forgotten_before
        position = known.progress.position
        has_less = known.last_path and self.size == known.size < position  # possible for a copy
        self.content.resume(known, has_less=bool(has_less))

    def known(self, wall: float) -> KnownSource:
        """The state of the source for the journal. Its file existed at `seen_millis`, so a
        different file in its place was created later."""
        end, progress = self.end, replace(self.progress, mark=self.mark)
        if end.unpacked is not None:
            return replace(end.unpacked, progress=progress, finished=end.ended)
        handle = self.handle
        seen_millis = handle.there_millis if handle.fd is None else there_millis(handle.fd, wall)
        return KnownSource(
            id=self.source,
            input=self.input,
            topic=self.topic,
            path=self.path,
            device=self.identity[0],
            inode=self.identity[1],
            fingerprint=self.fingerprint,
            progress=progress,
            last_path="" if self.current_path == self.path else self.current_path,
            size=self.size,
            finished=end.ended,
            seen_millis=max(seen_millis, self.born_ns // _MILLIS + 1),
            real_path=self.real_path,
            born_ns=self.born_ns,
            begun_ns=self.begun_ns,
            forgotten_before=self.forgotten_before,
            destroyed_up_to=end.destroyed_up_to,
        )

    def remembered(self) -> RememberedFile:
        """The properties by which the source's file is recognised."""
        content = self.content
        return RememberedFile(
            self.identity,
            self.born_ns,
            self.handle.there_millis,
            content.fingerprint,
            content.head,
            content.progress.position,
            content.tail,
            content.mark_alone,
            self.look.size,
            self.begun_ns,
        )

    def move(self, identity: Identity, path: str, head: bytes, size: int) -> None:
        """Moves the source to another file, which has all of its bytes or the first of them."""
        self.identity = identity
        self.rename(path)
        self.content.move(head, size)

    def finish(self) -> None:
        self.end.ended = True

    def unpack(self, identity: Identity, now: float) -> None:
        """Moves the source to the nameless file into which its archive is unpacked."""
        self.identity = identity
        self.deleted_at, self.missing_since = now, None

    # Names

    def call(self, path: str) -> None:
        self.current_path = path

    def rename(self, path: str) -> None:
        self.call(path)
        self.note_found()

    def note_found(self) -> None:
        """Notes that the file was found at its path."""
        self.missing_since = self.deleted_at = None

    def note_back(self) -> None:
        """Notes that a missing file could be opened again."""
        self.missing_since = None

    def note_missed(self, now: float) -> None:
        self.missing_since = self.missing_since or now

    def lose_name(self, now: float, mtime_ns: int) -> None:
        """Notes that the file was deleted."""
        self.deleted_at, self.deleted_mtime_ns = now, mtime_ns

    # File

    def doubt(self) -> None:
        """Marks the file as suspect: the next look identifies it."""
        self.suspect = True
        self._handles.notable.add(self)

    def trust(self) -> None:
        """Clears the mark set by `doubt`."""
        self.suspect = False

    def seal(self) -> None:
        self.sealed = True

    def open(self, path: str = "", *, sought: bool = False) -> int | None:
        """Opens the source's file at the current path, or at `path`; if it is not there, it becomes
        suspect. `sought`: the input does not match this path."""
        if self.handle.fd is not None:
            return self.handle.fd
        path = path or self.current_path
        try:
            fd, status = self._handles.open(path, self.path if sought else "")
        except (FileNotFoundError, NotADirectoryError):
            self.doubt()
            return None
        try:
            seen_file = SeenFile(status.st_size, (status.st_dev, status.st_ino), status.st_mtime_ns)
            if seen_file.identity == self.identity:
                seen_file = replace(seen_file, born_ns=born_ns(fd), head=read_head(fd))
        except OSError:
            os.close(fd)
            raise
        if reopened(self.remembered(), seen_file) is not IdentityVerdict.SAME:
            os.close(fd)
            self.doubt()
            return None
        self.hold(fd, path)
        return fd

    def hold(self, fd: int, path: str = "") -> None:
        """Takes a descriptor of the source's file, opened at the current path, or at `path`."""
        self.born_ns = born_ns(fd)
        self.begun_ns = self.begun_ns or min(self.born_ns, self.look.mtime_ns or self.born_ns)
        self.sealed = False
        self.real_path = _real_path(fd, path or self.current_path)
        self._handles.hold(self, fd)

    def status(self) -> os.stat_result | None:
        """The status of the source's file; None if it is not at its path."""
        fd = self.open()
        return None if fd is None else os.fstat(fd)

    def read(self, most: int, position: int | None = None) -> bytes:
        """Reads at most `most` bytes, from the progress by default; empty if there are none now.
        May raise OSError."""
        if position is None:
            position = self.progress.position
        try:
            data = self._read(most, position)
        except OSError as error:
            self._handles.trouble(self, error)
            raise
        if data:
            self.content.note_chunk(position, data)
            self.served = self._handles.use(self)
        return data

    def is_intact(self) -> bool:
        """Whether the file still has the bytes read before; if not, it becomes suspect. Extends the
        fingerprint."""
        fd = self.open()
        return fd is not None and self._is_intact(fd, self.progress.position)

    def settle(self) -> None:
        """Reads the tail before the position again, if it is unknown, after a file was assigned."""
        fd = self.fd
        position = self.progress.position
        if fd is not None and self.is_intact() and not self.content.tail:
            tail = read_tail(fd, position)
            self.content.tail = tail if len(tail) == min(TAIL, position) else b""

    def take_fingerprint(self) -> bytes:
        """Extends the fingerprint, and returns the first bytes; none if the file is suspect."""
        fd = self.open()
        head = b"" if fd is None else read_head(fd)
        return head if fd is not None and self._begins(fd, head) else b""

    def seen(self, fd: int) -> SeenFile:
        """The properties of an open file, for comparison with this source."""
        status, head = os.fstat(fd), read_head(fd)
        may_match = may_continue(self.remembered(), status.st_size, head)
        bytes_before = self.before(fd) if may_match else b""
        identity = status.st_dev, status.st_ino
        return SeenFile(
            status.st_size,
            identity,
            status.st_mtime_ns,
            born_ns(fd),
            head=head,
            before=bytes_before,
        )

    def beside(self, copy: "Followed", fd: int) -> SeenFile:
        """The properties of a followed copy, for comparison with this source."""
        is_long_enough = self.progress.position <= copy.size
        bytes_before, head = self.before(fd) if is_long_enough else b"", copy.content.head
        return SeenFile(copy.size, copy.identity, copy.mtime_ns, head=head, before=bytes_before)

    def before(self, fd: int) -> bytes:
        """The bytes of a file before this source's position, as many as the tail has. If the tail
        is unknown and the mark matches, they become the tail."""
        content = self.content
        position, tail = content.progress.position, content.tail
        if tail:
            return os.pread(fd, len(tail), position - len(tail))
        if not content.mark_alone:
            return b""
        bytes_before = read_tail(fd, position)
        if goes_on(b"", content.mark_alone, bytes_before):
            content.tail = bytes_before
        return bytes_before

    def _read(self, most: int, position: int) -> bytes:
        if self.suspect or (fd := self.open()) is None:
            return b""
        data = os.pread(fd, most, position)
        return data if self._is_intact(fd, position) else b""

    def _is_intact(self, fd: int, position: int) -> bool:
        content = self.content
        if position == content.progress.position:
            bytes_before = self.before(fd)
            if not goes_on(content.tail, content.mark_alone, bytes_before):
                self.doubt()
                return False
        return self._begins(fd, read_head(fd))

    def _begins(self, fd: int, head: bytes) -> bool:
        """Whether these are its first bytes. If none are known and it is shorter than seen before,
        it was truncated, and they are not."""
        content = self.content
        has_less = not content.fingerprint.size and os.fstat(fd).st_size < self.look.size
        if has_less or not begins(content.fingerprint, head, content.head):
            self.doubt()
            return False
        if content.show(head):
            self._handles.notable.add(self)
        return True


def _real_path(fd: int, path: str) -> str:
    """The path of an open file, if it differs from `path` because of symbolic links."""
    with contextlib.suppress(OSError):
        real_path = os.fspath(Path(f"/proc/self/fd/{fd}").readlink())
        if real_path != path and not real_path.endswith(DELETED):
            return real_path
    return ""
