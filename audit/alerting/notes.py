"""Acknowledgements and silences: what operators have said about alerts.

An acknowledged alert is known to somebody: receivers hear no more of it until it is resolved. A
silence mutes all alerts that match it, also those to come, until its end. Both have a name, a
reason, and are kept in one file of the data directory, which is replaced as a whole; so they
outlive a restart and a rebuilt database. Thread-safe.
"""

import contextlib
import logging
import secrets
import threading
from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import msgspec

from audit.alerting.conditions import AlertKey
from ground.files.durable_files import replace_file
from ground.known_types import known_type

FILE: Final = "alert-notes.json"
MOST: Final = 1_000  # of each
LONGEST_SILENCE_MILLIS: Final = 366 * 86_400_000

log = logging.getLogger(__name__)


class TooManyNotes(Exception):
    """There is no room for another."""


class Acknowledgement(msgspec.Struct, frozen=True, kw_only=True):
    """Times are milliseconds since 1970; `until` is -1 where only its resolution ends it."""

    id: str  # of the notice
    by: str
    reason: str
    time: int
    until: int = -1


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """What is given must match; `topic` and `host` are patterns with `*` and `?`."""

    id: str
    kind: str = ""
    cluster: str = ""
    topic: str = ""
    host: str = ""
    by: str
    reason: str
    time: int
    until: int

    def matches(self, about: AlertKey) -> bool:
        return (
            self.kind in {"", about.kind}
            and self.cluster in {"", about.cluster}
            and (not self.topic or fnmatchcase(about.topic, self.topic))
            and (not self.host or fnmatchcase(about.host, self.host))
        )


class _Content(msgspec.Struct, frozen=True, kw_only=True):
    version: int = 1
    acknowledgements: tuple[Acknowledgement, ...] = ()
    silences: tuple[Silence, ...] = ()


class AlertNotes:
    """Without a directory nothing outlives the process."""

    def __init__(self, directory: Path | None = None) -> None:
        self._path = directory / FILE if directory else None
        self._lock = threading.Lock()
        self._content = self._read()

    def _read(self) -> _Content:
        if self._path is None or not self._path.exists():
            return _Content()
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=known_type(_Content))
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            log.error("acknowledgements and silences cannot be read error=%r", str(error))
            with contextlib.suppress(OSError):
                self._path.rename(self._path.with_suffix(".json.damaged"))
            return _Content()

    def _keep(self, content: _Content) -> None:
        """Raises OSError; then nothing has changed."""
        if self._path is not None:
            replace_file(self._path, msgspec.json.encode(content), mode=0o600)
        self._content = content

    def acknowledgement(self, name: str, now: int) -> Acknowledgement | None:
        """Of the notice with that id."""
        known = (each for each in self._content.acknowledgements if each.id == name)
        return next((each for each in known if not 0 <= each.until <= now), None)

    def silence(self, about: AlertKey, now: int) -> Silence | None:
        standing = self.silences(now)
        return next((each for each in standing if each.matches(about)), None)

    def silences(self, now: int) -> tuple[Silence, ...]:
        """Those that have not ended; the last to end first."""
        standing = (each for each in self._content.silences if each.until > now)
        return tuple(sorted(standing, key=lambda each: (-each.until, each.id)))

    def acknowledge(self, said: Acknowledgement) -> None:
        """In place of an earlier one. Raises OSError, TooManyNotes."""
        with self._lock:
            others = tuple(e for e in self._content.acknowledgements if e.id != said.id)
            _check_room(others)
            both = (*others, said)
            self._keep(msgspec.structs.replace(self._content, acknowledgements=both))

    def add_silence(self, said: Silence) -> None:
        """Raises OSError, TooManyNotes."""
        with self._lock:
            standing = tuple(e for e in self._content.silences if e.until > said.time)
            _check_room(standing)
            both = (*standing, said)
            self._keep(msgspec.structs.replace(self._content, silences=both))

    def end_silence(self, name: str) -> bool:
        """Whether there was one. Raises OSError."""
        with self._lock:
            left = tuple(each for each in self._content.silences if each.id != name)
            if len(left) == len(self._content.silences):
                return False
            self._keep(msgspec.structs.replace(self._content, silences=left))
            return True

    def forget_resolved(self, standing: Collection[str]) -> None:
        """Acknowledgements of all but these notices are over."""
        with self._lock:
            known = self._content.acknowledgements
            left = tuple(each for each in known if each.id in standing)
            if len(left) < len(known):
                try:
                    self._keep(msgspec.structs.replace(self._content, acknowledgements=left))
                except OSError as error:
                    log.error("acknowledgements cannot be written error=%r", str(error))


def new_silence_id() -> str:
    return secrets.token_hex(4)


def _check_room(there: Collection[object]) -> None:
    if len(there) >= MOST:
        raise TooManyNotes(f"there are {MOST:,} already: end some of them")
