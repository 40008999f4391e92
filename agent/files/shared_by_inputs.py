"""What the files of all inputs share, and what is said of them in one look.

The kernel's events, the handles, the clock. What is one input's stands in `input_files`.
"""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from agent.config import HoldDeleted
from agent.files.attention import Attention
from agent.files.happenings import Happening, ReadableAgain, Unreadable
from agent.history.watching import Watcher
from agent.recognition.followed import Followed
from agent.recognition.handles import Handles
from agent.runs import SourceId


class SharedByInputs(msgspec.Struct):
    watcher: Watcher
    handles: Handles
    attention: Attention
    new_source: Callable[[], SourceId]
    wall: Callable[[], float]
    hold: HoldDeleted
    spool: Path | None  # where archives are unpacked
    rest: float  # how long a file that has been renamed must be quiet to be over
    now: float = 0.0
    said: list[Happening] = []
    unreadable: dict[str, str] = {}
    doubtful: dict[SourceId, int] = {}  # positions, if it may know less
    forgotten_before: int = -1  # of a damaged journal: the ledger's next entry

    def is_doubtful(self, followed: Followed) -> bool:
        """Whether more of it may have been shipped than anybody remembers."""
        return self.doubtful.get(followed.source) == followed.progress.position

    def say(self, *happenings: Happening) -> None:
        self.said.extend(happenings)

    def cannot_read(self, path: str, error: OSError) -> None:
        """Said once for each reason."""
        why = os.strerror(error.errno) if error.errno else str(error)
        if error.strerror and error.strerror != why:
            why = error.strerror
        if self.unreadable.get(path) != why:
            self.unreadable[path] = why
            self.say(Unreadable(path, why))

    def can_read(self, path: str) -> None:
        if self.unreadable and self.unreadable.pop(path, None) is not None:
            self.say(ReadableAgain(path))

    def close(self, followed: Followed) -> None:
        """Nothing of it is wanted any more."""
        self.attention.drop(followed)
        self.handles.close(followed)
        self.handles.notable.discard(followed)

    def retry(self, followed: Followed) -> None:
        """After an error of its file, which may be over."""
        try:
            fd = followed.open()
            if fd is not None:
                os.pread(fd, 1, followed.progress.position)
        except OSError as error:
            self.handles.close(followed)
            self.cannot_read(followed.current_path, error)
            return
        self.handles.untrouble(followed)
        self.can_read(followed.current_path)
        self.attention.rouse(followed, self.now)
