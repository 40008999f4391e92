"""Begins to read archives that are sources themselves, for inputs that read archives.

The content decides. If it begins like a source and has the bytes that were read last in their
place, those lines were read: before the file was compressed, or in another archive. Only what
follows is read. An archive waits while its file is still followed, and while a process writes to
it. An archive without such a source is read whole, unless it was made after the input was first
followed, and before it read archives: then its file was probably read.

An archive is read like a source that continues in its archive (`unpacking`): its content is a
nameless file. The journal has the archive's device and inode, and positions in its content.

Archives are identified and read one after the other. Sources are remembered for a year by their
archives, and no source is forgotten while an archive can be identified.
"""

import os
import time
import zlib
from collections.abc import Collection, Generator, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from msgspec.structs import replace

from agent.accounting.runs import KnownSource, Progress
from agent.files.archive_queue import Attempt
from agent.files.happenings import Appeared, Forgettable, Remembered
from agent.files.input_files import InputFiles
from agent.files.shared_by_inputs import SharedByInputs
from agent.files.unpacked_content import AHEAD, UnpackedContent
from agent.files.unpacking import Unpacking
from agent.open_files.paths import folder_of
from agent.recognition.compressed import ArchiveDamaged, has_compressed_name
from agent.recognition.file_properties import born_ns, is_open_for_writing, read_tail
from agent.recognition.followed import Followed
from agent.recognition.identity import (
    FULL,
    Beginning,
    Sighting,
    begins,
    may_be_original,
    was_made_before,
)

_RETRY_SECONDS: Final = 1.0


class _Original(NamedTuple):
    """A source that the archive may contain, up to its position."""

    position: int
    mark: int  # 0 if unknown
    known: KnownSource | None  # a remembered source
    followed: Followed | None
    is_at_rest: bool = True  # False for a source that was not found yet
    is_own: bool = False  # an archive that was not read to its end, probably this one


def read_archives(
    input_files: InputFiles,
    every_input: Collection[InputFiles],
    shared: SharedByInputs,
    until: float,
) -> None:
    """Identifies archives, and begins to read the next one if none is read now, until the thread's
    CPU time reaches `until`."""
    queue, is_read = input_files.archives, _is_reading(input_files)
    while not is_read and time.thread_time() < until:
        if queue.attempt is None:
            sighting = queue.next(shared.now, input_files.since_millis * 1_000_000)
            if sighting is None:
                return
            start = _Start(input_files, every_input, shared, sighting)
            queue.attempt = Attempt(sighting, start.steps())
        sighting, steps = queue.attempt
        try:
            next(steps)
            continue
        except StopIteration:
            pass
        except ArchiveDamaged as error:
            input_files.note_not_read(sighting, str(error))
        except OSError as error:  # no room, perhaps
            shared.cannot_read(sighting.path, error)
            queue.delay(sighting, shared.now + _RETRY_SECONDS)
        queue.attempt = None
        queue.done(sighting)
        is_read = _is_reading(input_files)


def _is_reading(input_files: InputFiles) -> bool:
    return any(followed.is_archive for followed in input_files.unpacking)


class _Start:
    """The identification of one archive."""

    def __init__(
        self,
        input_files: InputFiles,
        every_input: Collection[InputFiles],
        shared: SharedByInputs,
        sighting: Sighting,
    ) -> None:
        self._input_files = input_files
        self._every_input = every_input
        self._shared = shared
        self._sighting = sighting
        self._fd = -1
        self._archive_bytes = 0

    def steps(self) -> Generator[None]:
        """Identifies the archive, and begins to read it. Yields after each piece."""
        sighting, shared = self._sighting, self._shared
        try:
            self._fd, status = shared.handles.open(sighting.path)
        except (FileNotFoundError, NotADirectoryError):
            return
        try:
            self._archive_bytes = status.st_size
            if (status.st_dev, status.st_ino) != sighting.identity:
                self._input_files.again.add(folder_of(sighting.path))
            elif self._is_written(self._fd, status):
                self._try_again()
            else:
                shared.note_readable(sighting.path)
                yield from self._identify()
        finally:
            os.close(self._fd)

    def _identify(self) -> Iterator[None]:
        content, is_begun = self._content(), False
        try:
            yield from self._unpack(content, FULL)
            if self._is_finished(content.head):
                return
            originals = list(self._originals(content.head))
            positions = {original.position for original in originals}
            furthest = max(positions, default=0)
            if furthest > content.end + AHEAD:
                content.start = furthest
            content.ask(positions)
            yield from self._unpack(content, furthest + 1)
            same = [original for original in originals if _has(content, original)]
            same = [original for original in same if original.is_own] or same
            if not all(original.is_at_rest for original in same):
                self._try_again()
                return
            waits_for: dict[Followed, int] = {}
            for position, _, _, followed, *_ in same:
                if followed is not None and not _has_all(content, position):
                    if followed.size <= furthest + AHEAD:
                        content.ask([followed.size])
                        yield from self._unpack(content, followed.size + 1)
                    if not _has_less(content, followed):
                        waits_for[followed] = position
                    elif self._is_unpacked_there(content, followed):
                        self._try_again()
                        return
            if waits_for:
                self._input_files.archives.wait_for(self._sighting, waits_for)
                return
            same = [
                original
                for original in same
                if original.followed is None or _has_all(content, original.position)
            ]
            last = max(same, key=lambda original: original.position, default=None)
            if last is None and content.error and content.end < furthest:
                self._input_files.note_not_read(self._sighting, content.error)
                return
            start, known = (last.position, last.known) if last is not None else (0, None)
            if last is not None and _has_all(content, start) and not last.is_own:
                self._remember(content, known)
                return
            if content.start > start:
                content.close()
                content = self._content(start)
            yield from self._unpack(content, start + AHEAD)
            if content.is_complete and not content.head:
                self._input_files.note_empty(self._sighting)
                return
            followed = self._become_source(content, start, known)
            unpacking = Unpacking.begun(followed, self._sighting.path, content, self._limit)
            self._input_files.unpacking[followed] = unpacking
            is_begun = True
        finally:
            if not is_begun:
                content.close()

    def _content(self, start: int = 0) -> UnpackedContent:
        return UnpackedContent(os.dup(self._fd), self._shared.spool, start)

    def _unpack(self, content: UnpackedContent, up_to: int) -> Iterator[None]:
        while content.end < up_to and not content.is_over:
            content.advance()
            self._limit(content)
            yield

    def _limit(self, content: UnpackedContent) -> None:
        content.limit(self._archive_bytes, self._input_files.input.max_archive_bytes)

    def _try_again(self) -> None:
        self._input_files.archives.delay(self._sighting, self._shared.now + _RETRY_SECONDS)

    def _is_written(self, fd: int, status: os.stat_result) -> bool:
        """Whether a process may still write to a file; if the kernel cannot tell, whether it was
        changed a short time ago."""
        is_open = is_open_for_writing(fd)
        age = self._shared.wall() - max(status.st_mtime, status.st_ctime)
        return 0 <= age < self._shared.rest if is_open is None else is_open

    def _is_unpacked_there(self, content: UnpackedContent, followed: Followed) -> bool:
        """Whether the source's file, which has less than the archive, is still written, and has
        what the archive has there: somebody unpacks it, and its source will have all lines."""
        if followed.fd is None:
            return False
        try:
            mark = zlib.crc32(read_tail(followed.fd, followed.size))
            is_written = self._is_written(followed.fd, os.fstat(followed.fd))
        except OSError as error:
            followed.trouble = error
            return False
        return is_written and mark == content.mark(followed.size)

    def _is_finished(self, head: bytes) -> bool:
        """Whether the archive is unchanged since it was read, perhaps under another name or
        device."""
        memory, born, sighting = self._input_files.memory, born_ns(self._fd), self._sighting
        for known in memory.at_inode(sighting.inode):
            if (
                known.finished
                and known.size == self._archive_bytes
                and has_compressed_name(known.path)
                and was_made_before(known.seen_millis, born)
                and begins(known.fingerprint, head)
            ):
                if known.device != sighting.device:
                    memory.remove(known)
                    memory.add(replace(known, device=sighting.device))
                memory.note_checked(sighting)
                return True
        return False

    def _originals(self, head: bytes) -> Iterator[_Original]:
        """The sources that begin like the archive, of all inputs with its topic."""
        beginning = Beginning(head)
        for other in self._every_input:
            if other.input.topic != self._input_files.input.topic:
                continue
            orphans = (followed for followed, _ in other.orphans)
            for followed in {*other.files.values(), *other.unpacking, *orphans}:
                if self._may_be_of(followed, beginning):
                    position = followed.progress.position
                    yield _Original(position, followed.mark, None, followed)
            for known in other.memory.all():
                if self._may_be_of(known, beginning):
                    yield self._remembered(known, is_of_input=other is self._input_files)

    def _remembered(self, known: KnownSource, *, is_of_input: bool) -> _Original:
        is_own = is_of_input and has_compressed_name(known.path) and not known.finished
        return _Original(
            known.progress.position,
            known.progress.mark,
            known,
            None,
            is_at_rest=known.finished or is_own,
            is_own=is_own,
        )

    def _may_be_of(self, source: Followed | KnownSource, beginning: Beginning) -> bool:
        begun_ns = 0 if has_compressed_name(source.path) else source.begun_ns
        if isinstance(source, Followed):  # unpacking keeps the archive's time
            begun_ns = min(begun_ns, source.mtime_ns)
        is_alike = beginning.is_of(source.fingerprint)
        return is_alike and may_be_original(source.fingerprint, begun_ns, self._sighting.mtime_ns)

    def _remember(self, content: UnpackedContent, former: KnownSource | None) -> None:
        """Remembers that the lines of the archive have been read."""
        shared, sighting = self._shared, self._sighting
        followed = Followed(sighting.path, sighting.identity, None, shared.handles)
        progress = Progress(content.end, mark=content.end_mark)
        followed.become(shared.new_source(), self._input_files.input, progress)
        followed.content.show(content.head)
        note = replace(self._known(followed), progress=progress, finished=True)
        shared.report(Remembered(note))
        self._forget_former(former)
        self._input_files.memory.add(note, sighting)
        self._input_files.why_not_read.pop(sighting.identity, None)

    def _become_source(
        self, content: UnpackedContent, start: int, former: KnownSource | None
    ) -> Followed:
        """Makes the archive a source, or resumes the source that it is."""
        shared, sighting, input_files = self._shared, self._sighting, self._input_files
        followed = Followed(sighting.path, sighting.identity, None, shared.handles)
        is_known = former is not None and not former.finished
        if former is not None and is_known:
            input_files.memory.remove(former)
            followed.resume(former)
        else:
            followed.become(shared.new_source(), input_files.input, Progress(start))
            followed.may_be_forgotten(shared.forgotten_before)
            if content.is_refused and not start:
                os.ftruncate(content.fd, 0)
            else:
                followed.content.show(content.head)
        followed.belong(input_files.input)
        input_files.why_not_read.pop(sighting.identity, None)
        followed.content.tell()
        followed.end.unpacked = self._known(followed)
        status = os.fstat(content.fd)
        followed.unpack((status.st_dev, status.st_ino), shared.now)
        shared.attention.note_first_look(followed, shared.now)
        shared.attention.note_moved(followed, status.st_size, status.st_mtime_ns)
        input_files.hold(followed, os.dup(content.fd))
        shared.report(Appeared(followed, known_before=is_known))
        self._forget_former(former)
        return followed

    def _known(self, followed: Followed) -> KnownSource:
        """The state of a source by its archive."""
        known, born = followed.known(self._shared.wall()), born_ns(self._fd)
        return replace(
            known,
            device=self._sighting.device,
            inode=self._sighting.inode,
            size=self._archive_bytes,
            born_ns=born,
            seen_millis=max(int(self._shared.wall() * 1000), born // 1_000_000) + 1,
        )

    def _forget_former(self, former: KnownSource | None) -> None:
        """Forgets the former source of an archive that has changed since, and ends a source whose
        archive was replaced by this one."""
        memory, identity = self._input_files.memory, self._sighting.identity
        if former is not None and former.finished and former in memory.at_inode(identity[1]):
            memory.remove(former)
            self._shared.report(Forgettable(former.id))
        self._input_files.lose_remembered(identity)


def _has(content: UnpackedContent, original: _Original) -> bool:
    """Whether the content is the source's: up to its position, or, if the content is shorter and
    the source's file is open, up to the content's end."""
    mark = content.mark(original.position)
    if mark is not None:
        return not original.mark or mark == original.mark
    followed = original.followed
    if not content.is_complete or followed is None or followed.fd is None:
        return False
    with suppress(OSError):
        start = content.end - len(content.tail)
        return os.pread(followed.fd, len(content.tail), start) == content.tail
    return False


def _has_all(content: UnpackedContent, position: int) -> bool:
    """Whether a source with this position has read all of the content."""
    return content.is_complete and content.end <= position


def _has_less(content: UnpackedContent, followed: Followed) -> bool:
    """Whether the source's file has all that was read, but less than the archive."""
    if followed.fd is None or followed.nameless or followed.suspect:
        return False
    try:
        size = os.fstat(followed.fd).st_size
        return followed.progress.position <= size < content.end and followed.is_intact()
    except OSError as error:
        followed.trouble = error
        return False
