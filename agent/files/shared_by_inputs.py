"""The state that the files of all inputs share: inotify, open files, clocks, and the happenings of
the current look. `input_files` has the state of one input.
"""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from agent.accounting.runs import SourceId
from agent.configuration.config import HoldDeleted
from agent.files.attention import Attention
from agent.files.happenings import Happening, ReadableAgain, Unreadable
from agent.history.watcher import Watcher
from agent.open_files.open_file_limit import Handles
from agent.recognition.followed import Followed
from agent.recognition.memory import Memory


class SharedByInputs(msgspec.Struct):
    watcher: Watcher
    handles: Handles
    attention: Attention
    new_source: Callable[[], SourceId]
    wall: Callable[[], float]
    hold: HoldDeleted
    spool: Path | None  # where archives are unpacked
    rest: float  # the quiet time after which a renamed file is over
    now: float = 0.0
    set_millis: int = 0  # by which the wall clock was set between the last look and this one
    reported: list[Happening] = []
    archive_topics: frozenset[str] = frozenset()  # of inputs that read archives
    unreadable: dict[str, str] = {}
    doubtful: dict[SourceId, int] = {}  # positions, if the journal may lack later progress
    forgotten_before: int = -1  # the ledger's next entry, if the journal was damaged
    unclaimed: Memory = msgspec.field(default_factory=Memory)  # sources that no input has

    def is_doubtful(self, followed: Followed) -> bool:
        """Whether more of a source may have been shipped than the journal records."""
        return self.doubtful.get(followed.source) == followed.progress.position

    def report(self, *happenings: Happening) -> None:
        self.reported.extend(happenings)

    def cannot_read(self, path: str, error: OSError) -> None:
        """Reports a path that cannot be read, once for each reason."""
        reason = os.strerror(error.errno) if error.errno else str(error)
        if error.strerror and error.strerror != reason:
            reason = error.strerror
        if self.unreadable.get(path) != reason:
            self.unreadable[path] = reason
            self.report(Unreadable(path, reason))

    def note_readable(self, path: str) -> None:
        if self.unreadable and self.unreadable.pop(path, None) is not None:
            self.report(ReadableAgain(path))

    def close(self, followed: Followed) -> None:
        """Closes a file that is no longer followed."""
        self.attention.drop(followed)
        self.handles.close(followed)
        self.handles.notable.discard(followed)

    def retry(self, followed: Followed) -> None:
        """Tries to read a file again after an error."""
        try:
            fd = followed.open()
            if fd is not None:
                os.pread(fd, 1, followed.progress.position)
        except OSError as error:
            self.handles.close(followed)
            self.cannot_read(followed.current_path, error)
            return
        self.handles.clear_trouble(followed)
        self.note_readable(followed.current_path)
        self.attention.make_busy(followed, self.now)
