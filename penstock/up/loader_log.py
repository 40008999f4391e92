"""Which tables the loader cannot load, in its own words: for whoever asks while no audit answers,
or before it has heard of it.

The log is read on from where it was read to; of what was there before, the end. Each outcome of a
table takes the place of the one before, whichever loader's it was: what failed when a loader ended
has not been loaded since.
"""

import os
import re
from pathlib import Path
from typing import Final

import msgspec

from penstock.standing.values import FailingLoadStanding, Standing
from penstock.up.load_at_work import event_of

_MOST: Final = 256 * 1024  # bytes that are read at a time
_FAILED: Final = re.compile(r"table failed table=(\S+) reason=(.*)")
_ENDED: Final = re.compile(r"(?:table done|nothing committed|nothing to do|checked) table=(\S+).*")
_NONE_BEGAN: Final = "load failed reason="


class LoaderLog:
    """One loader's. Of one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = -1  # up to where; -1: nothing yet
        self._begun = b""  # of a line
        self._failing: dict[str, FailingLoadStanding] = {}
        self._loaded: set[str] = set()

    def read(self) -> None:
        """What is new in it."""
        try:
            with self._path.open("rb") as file:
                end = file.seek(0, os.SEEK_END)
                if self._read > end:  # it was cut
                    self._read, self._begun = 0, b""
                if end - self._read > _MOST or self._read < 0:
                    self._read, self._begun = max(0, end - _MOST), b""
                file.seek(self._read)
                new = file.read(end - self._read)
        except OSError:
            return
        self._read += len(new)
        *lines, self._begun = (self._begun + new).split(b"\n")
        for line in lines:
            if found := event_of(line.decode(errors="replace")):
                self._take(*found)

    def added_to(self, standing: Standing) -> Standing:
        """With what it has said: that is newer than what the audit has heard."""
        known = {each.topic: each for each in standing.failing_loads}
        for topic in self._loaded & known.keys():
            del known[topic]
        for topic, failing in self._failing.items():
            known.setdefault(topic, failing)
        return msgspec.structs.replace(
            standing,
            failing_loads=tuple(sorted(known.values(), key=lambda each: each.since)),
            topics=tuple(
                msgspec.structs.replace(each, load_fails=each.topic in known)
                for each in standing.topics
            ),
        )

    def _take(self, at: float, said: str) -> None:
        if found := _FAILED.fullmatch(said):
            self._fail(at, found[1], found[2].removeprefix(f"table {found[1]}: "))
        elif found := _ENDED.fullmatch(said):
            self._failing.pop(found[1], None)
            self._loaded.add(found[1])
        elif said.startswith(_NONE_BEGAN):
            self._fail(at, "", said.removeprefix(_NONE_BEGAN))
            return
        else:
            return
        self._failing.pop("", None)  # that load has begun

    def _fail(self, at: float, topic: str, reason: str) -> None:
        self._loaded.discard(topic)
        before = self._failing.get(topic)
        since = before.since if before else int(at) * 1000
        self._failing[topic] = FailingLoadStanding(topic=topic, since=since, reason=reason)
