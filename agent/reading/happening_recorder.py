"""Journals and logs happenings of files: sources appear, are renamed, lose bytes, and end.

A source is journalled before anything of it is shipped, and its end after everything of it was
handed over.
"""

import logging
import time
from collections import deque
from collections.abc import Iterable

from agent.accounting.runs import SourceId
from agent.files.files import Files
from agent.files.happenings import (
    Appeared,
    Compressed,
    Deleted,
    Ended,
    EndUnseen,
    Forgettable,
    Grown,
    Happening,
    LeftToOther,
    Lost,
    NotWatched,
    Polling,
    ReadableAgain,
    Released,
    Remembered,
    Renamed,
    Truncated,
    Unpacked,
    Unreadable,
)
from agent.history.blind_times import Traces, Unwatched
from agent.journal.journal import Journal
from agent.reading.destinations import Destinations
from agent.reading.intake import Intake
from agent.recognition.compressed import without_compression
from agent.recognition.followed import Followed
from ground.printable import one_line

log = logging.getLogger(__name__)


class HappeningRecorder:
    """Processes happenings of files. Belongs to the pipeline's thread; others may read `intakes`,
    `unreadable` and `polling`."""

    def __init__(
        self,
        files: Files,
        journal: Journal,
        destinations: Destinations,
    ) -> None:
        self._files = files
        self._journal = journal
        self._destinations = destinations
        self._waiting: deque[Happening] = deque()
        self.intakes: dict[SourceId, Intake] = {}
        self.unreadable: dict[str, str] = {}
        self.polling = ""
        self._inputs_with_archives: set[str] = set()
        self._shipped_names: set[str] | None = None  # collected on demand
        self._archive: Compressed | None = None  # whose statement waits for the journal

    def intake(self, followed: Followed) -> Intake | None:
        """The intake of a source; None until it is journalled, or if no input follows it."""
        return self.intakes.get(followed.source)

    def expect(self, happenings: Iterable[Happening]) -> None:
        self._waiting.extend(happenings)

    def note(self, now: float) -> None:
        """Processes all queued happenings in order. After JournalFull, the next call continues."""
        self._shipped_names = None
        while self._waiting:
            self._note(self._waiting[0], now)
            self._waiting.popleft()

    def start_lag(self, unread: Iterable[Followed], now: float) -> None:
        """Starts measuring the lag of files with unread bytes, whether or not they can be read
        now."""
        for followed in unread:
            intake = self.intakes.get(followed.source)
            if intake is not None:
                intake.note_unread(now)

    def start_over(self) -> None:
        """Resets the intakes after readers have changed."""
        for intake in self.intakes.values():
            intake.start_over()

    def _note(self, happening: Happening, now: float) -> None:
        match happening:
            case Appeared(followed, known_before):
                self._appeared(followed, now, known_before=known_before)
            case Renamed(followed, former):
                self._journal.source(self._files.snapshot_of(followed))
                log.info(
                    "file renamed source=%s from=%s to=%s",
                    followed.source,
                    one_line(former),
                    one_line(followed.current_path),
                )
            case Grown(followed):
                self._journal.source(self._files.snapshot_of(followed))
            case Truncated(followed, lost, following):
                is_overwritten = followed.end.traces is Traces.OVERWRITTEN
                log.info(
                    "file %s path=%s source=%s next=%s unread_bytes=%d",
                    "overwritten" if is_overwritten else "truncated",
                    one_line(followed.current_path),
                    followed.source,
                    following.source,
                    lost,
                )
            case Deleted(followed):
                log.info(
                    "file deleted path=%s source=%s unread_bytes=%d",
                    one_line(followed.current_path),
                    followed.source,
                    followed.unread,
                )
            case Lost():
                self._lost(happening)
            case Ended(followed):
                self._ended(followed)
            case EndUnseen(followed, unwatched):
                self._end_unseen(followed, unwatched)
            case NotWatched(unwatched):
                self._not_watched(unwatched)
            case Unpacked(followed, archive):
                log.info(
                    "source continues in an archive path=%s source=%s archive=%s position=%d",
                    one_line(followed.path),
                    followed.source,
                    one_line(archive),
                    followed.progress.position,
                )
            case Released(followed):
                self.intakes.pop(followed.source, None)
            case Forgettable(source):
                self._journal.forget(source)
            case Remembered(known):
                self._journal.source(known)
            case _:
                self._told(happening)

    def _appeared(self, followed: Followed, now: float, *, known_before: bool) -> None:
        self._journal.source(self._files.snapshot_of(followed))
        self.intakes[followed.source] = Intake(followed, now)
        if not known_before:
            log.info(
                "file followed path=%s source=%s input=%s position=%d size=%d",
                one_line(followed.current_path),
                followed.source,
                followed.input,
                followed.progress.position,
                followed.size,
            )

    def _lost(self, lost: Lost) -> None:
        followed = lost.followed
        log.warning(
            "bytes lost path=%s source=%s position=%d bytes=%d reason=%s",
            one_line(followed.current_path),
            followed.source,
            lost.position,
            lost.bytes,
            lost.reason,
        )
        self._destinations.state_loss(lost)

    def _ended(self, followed: Followed) -> None:
        self._destinations.end(followed)
        self._journal.finished(followed.source, time.time_ns() // 1_000_000)
        self.intakes.pop(followed.source, None)
        log.info(
            "file shipped to its end path=%s source=%s bytes=%d",
            one_line(followed.current_path),
            followed.source,
            followed.progress.position,
        )

    def _end_unseen(self, followed: Followed, unwatched: Unwatched) -> None:
        self._destinations.end(followed)
        self._journal.unwatched(unwatched)
        self.intakes.pop(followed.source, None)
        log.warning(
            "file may have had unread bytes at its end path=%s source=%s bytes=%d seconds=%.1f "
            "traces=%s reason=%s",
            one_line(unwatched.path),
            followed.source,
            unwatched.position,
            (unwatched.to_millis - unwatched.from_millis) / 1000,
            unwatched.traces,
            one_line(unwatched.reason),
        )

    def _not_watched(self, unwatched: Unwatched) -> None:
        self._journal.unwatched(unwatched)
        is_harmless = unwatched.traces in {Traces.UNCHANGED, Traces.BRIEF}
        log.log(
            logging.INFO if is_harmless else logging.WARNING,
            "not watched topic=%s path=%s seconds=%.1f traces=%s reason=%s",
            unwatched.topic,
            one_line(unwatched.path),
            (unwatched.to_millis - unwatched.from_millis) / 1000,
            unwatched.traces,
            one_line(unwatched.reason),
        )

    def _not_read(self, archive: Compressed) -> None:
        """States that a compressed file is unread, unless it was shipped before compression."""
        name, path = archive.input, archive.path
        if archive.why:
            log.warning(
                "archive is not read input=%s path=%s reason=%s", name, one_line(path), archive.why
            )
        elif name not in self._inputs_with_archives:
            self._inputs_with_archives.add(name)
            log.info("compressed file is not read input=%s path=%s", name, one_line(path))
        if archive is self._archive or not archive.is_left or self._was_shipped(path):
            return
        self._archive = archive  # if the journal is full, destinations retry by themselves
        self._destinations.unread(archive.topic, name, path)

    def _was_shipped(self, archive: str) -> bool:
        if self._shipped_names is None:
            sources = self._journal.sources
            self._shipped_names = {source.last_path or source.path for source in sources}
        return without_compression(archive) in self._shipped_names

    def _told(self, happening: Happening) -> None:
        match happening:
            case Unreadable(path, why):
                self.unreadable[path] = why
                log.warning("cannot read path=%s reason=%s", one_line(path), why)
            case ReadableAgain(path, gone):
                self.unreadable.pop(path, None)
                if not gone:
                    log.info("readable again path=%s", one_line(path))
            case Compressed():
                self._not_read(happening)
            case LeftToOther(name, path):
                log.info(
                    "file not read again, another input of the topic has it path=%s input=%s",
                    one_line(path),
                    name,
                )
            case Polling(path, why):
                self.polling = f"{one_line(path)}: {why}"
                log.warning(
                    "no inotify events, polling instead path=%s reason=%s",
                    one_line(path),
                    why,
                )
