"""What a loader says in its log: it serves nobody who could ask it.

What it is about is the log's last event, unless that is that it waits, or has failed. What was said
before it was started is of another life.

Which tables it cannot load is read there by whoever asks while no audit answers, or before it has
heard of it. The log is read on from where it was read to; of what was there before, the end. Each
outcome of a table takes the place of the one before, whichever loader's it was: what failed when a
loader ended has not been loaded since.
"""

import json
import os
import re
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from penstock.directory.log_files import last_lines
from penstock.status.values import FailingLoadStanding, PipelineStatus

_LINES: Final = 20  # tables are printed, too
_EVENT: Final = re.compile(r"(\S+Z) [A-Z]+ penstock\.load (.+)")
_IDLE: Final = (
    "waiting until=",
    "load failed ",
    "a load took longer ",
    "table done ",
    "table failed ",
    "nothing to do ",
    "nothing committed ",
    "checked ",
)
_MOST: Final = 256 * 1024  # bytes that are read at a time
_FAILED: Final = re.compile(r"table failed table=(\S+) reason=(.*)")
_ENDED: Final = re.compile(r"(?:table done|nothing committed|nothing to do|checked) table=(\S+).*")
_NONE_BEGAN: Final = "load failed reason="


def load_at_work(log: Path, since: float) -> str:
    """In the loader's words; empty if none runs."""
    for line in reversed(last_lines(log, 0, _LINES)):
        if found := event_of(line):
            at, said = found
            return "" if at < since or said.startswith(_IDLE) else said
    return ""


def event_of(line: str) -> tuple[float, str] | None:
    """When, and what; None for a line that is none of the loader's events."""
    try:
        if not line.startswith("{"):
            found = _EVENT.fullmatch(line)
            return (datetime.fromisoformat(found[1]).timestamp(), found[2]) if found else None
        event = json.loads(line)
        if event["logger"] != "penstock.load":
            return None
        return datetime.fromisoformat(event["time"]).timestamp(), str(event["event"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


class LoaderLog:
    """One loader's. Of one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = -1  # up to where; -1: nothing yet
        self._begun = b""  # of a line
        self._failing: dict[str, FailingLoadStanding] = {}
        self._loaded: set[str] = set()

    def read(self) -> None:
        """What is new in it: mostly nothing, and it is asked for several times a second."""
        try:
            if self._path.stat().st_size == self._read:
                return
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

    def added_to(self, standing: PipelineStatus) -> PipelineStatus:
        """With what it has said: that is newer than what the audit has heard."""
        known = {failing_load.topic: failing_load for failing_load in standing.failing_loads}
        for topic in self._loaded & known.keys():
            del known[topic]
        for topic, failing in self._failing.items():
            known.setdefault(topic, failing)
        return msgspec.structs.replace(
            standing,
            failing_loads=tuple(sorted(known.values(), key=lambda load: load.since)),
            topics=tuple(
                msgspec.structs.replace(topic, load_fails=topic.topic in known)
                for topic in standing.topics
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
