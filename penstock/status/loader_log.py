"""Reads a loader's status from its log, since a loader has no port.

What it is doing is the log's last event since its start, unless that says that it waits or has
failed.

The log also says which tables cannot be loaded, which the audit may not know yet. It is read from
where the last reading ended; at first, only its end is. The last outcome of a table counts, also
across restarts of the loader.
"""

import json
import os
import re
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from penstock.directory.log_files import last_lines
from penstock.status.values import FailingLoadStatus, PipelineStatus

_LINES: Final = 20  # more than one, as the loader prints tables, too
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
    "files damaged ",
)
_MOST: Final = 256 * 1024  # bytes read at a time
_FAILED: Final = re.compile(r"table failed table=(\S+) reason=(.*)")
_ENDED: Final = re.compile(r"(?:table done|nothing committed|nothing to do|checked) table=(\S+).*")
_NONE_BEGAN: Final = "load failed reason="


def load_at_work(log: Path, since: float) -> str:
    """Returns the loader's last event if a load is running; otherwise "". An event before `since`
    does not count."""
    for line in reversed(last_lines(log, 0, _LINES)):
        if event := event_of(line):
            seconds, words = event
            return "" if seconds < since or words.startswith(_IDLE) else words
    return ""


def event_of(line: str) -> tuple[float, str] | None:
    """Returns an event's time and text; None for a line that is not one of the loader's events."""
    try:
        if not line.startswith("{"):
            match = _EVENT.fullmatch(line)
            return (datetime.fromisoformat(match[1]).timestamp(), match[2]) if match else None
        event = json.loads(line)
        if event["logger"] != "penstock.load":
            return None
        return datetime.fromisoformat(event["time"]).timestamp(), str(event["event"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


class LoaderLog:
    """The log of one loader. For one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = -1  # up to where; -1: nothing yet
        self._begun = b""  # the beginning of an incomplete line
        self._failing: dict[str, FailingLoadStatus] = {}
        self._loaded: set[str] = set()

    def read(self) -> None:
        """Reads appended lines. Cheap if there are none, since it is called several times a
        second."""
        try:
            if self._path.stat().st_size == self._read:
                return
            with self._path.open("rb") as file:
                end = file.seek(0, os.SEEK_END)
                if self._read > end:  # truncated
                    self._read, self._begun = 0, b""
                if end - self._read > _MOST or self._read < 0:
                    self._read, self._begun = max(0, end - _MOST), b""
                file.seek(self._read)
                new_bytes = file.read(end - self._read)
        except OSError:
            return
        self._read += len(new_bytes)
        *lines, self._begun = (self._begun + new_bytes).split(b"\n")
        for line in lines:
            if event := event_of(line.decode(errors="replace")):
                self._take(*event)

    def added_to(self, status: PipelineStatus) -> PipelineStatus:
        """Returns the status with the loads of this log, which are newer than those that the audit
        knows."""
        failing_loads = {failing_load.topic: failing_load for failing_load in status.failing_loads}
        for topic in self._loaded & failing_loads.keys():
            del failing_loads[topic]
        for topic, failure in self._failing.items():
            failing_loads.setdefault(topic, failure)
        return msgspec.structs.replace(
            status,
            failing_loads=tuple(sorted(failing_loads.values(), key=lambda load: load.since)),
            topics=tuple(
                msgspec.structs.replace(topic, load_fails=topic.topic in failing_loads)
                for topic in status.topics
            ),
        )

    def _take(self, at: float, words: str) -> None:
        if match := _FAILED.fullmatch(words):
            self._fail(at, match[1], match[2].removeprefix(f"table {match[1]}: "))
        elif match := _ENDED.fullmatch(words):
            self._failing.pop(match[1], None)
            self._loaded.add(match[1])
        elif words.startswith(_NONE_BEGAN):
            self._fail(at, "", words.removeprefix(_NONE_BEGAN))
            return
        else:
            return
        self._failing.pop("", None)  # that load has begun

    def _fail(self, at: float, topic: str, reason: str) -> None:
        self._loaded.discard(topic)
        earlier_failure = self._failing.get(topic)
        since = earlier_failure.since if earlier_failure else int(at) * 1000
        self._failing[topic] = FailingLoadStatus(topic=topic, since=since, reason=reason)
