"""Operators' notes about alerts: acknowledgements and silences.

Receivers get no more about an acknowledged alert until it is resolved. A silence mutes all matching
alerts, future ones included, until its end. Both have an author and a reason, and are kept in one
file of the data directory, which is replaced as a whole, so they survive restarts and a rebuilt
database. Thread-safe.
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
    """The limit of notes is reached."""


class Acknowledgement(msgspec.Struct, frozen=True, kw_only=True):
    """An acknowledged notice. Times are milliseconds since 1970; `until` is -1 if the
    acknowledgement lasts until the alert is resolved."""

    id: str  # of the notice
    by: str
    reason: str
    time: int
    until: int = -1


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """Silences the alerts that match all given fields; `topic` and `host` are patterns with `*` and
    `?`."""

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
    """All notes, stored in a file; without a directory, in memory only."""

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
            log.error("cannot read acknowledgements and silences error=%r", str(error))
            with contextlib.suppress(OSError):
                self._path.rename(self._path.with_suffix(".json.damaged"))
            return _Content()

    def _keep(self, content: _Content) -> None:
        """Stores the notes. Raises OSError, and then changes nothing."""
        if self._path is not None:
            replace_file(self._path, msgspec.json.encode(content), mode=0o600)
        self._content = content

    def acknowledgement(self, name: str, now: int) -> Acknowledgement | None:
        """Returns the current acknowledgement of the notice with this id; None if there is none."""
        own_notes = (note for note in self._content.acknowledgements if note.id == name)
        return next((note for note in own_notes if not 0 <= note.until <= now), None)

    def silence(self, about: AlertKey, now: int) -> Silence | None:
        current_silences = self.silences(now)
        return next((silence for silence in current_silences if silence.matches(about)), None)

    def silences(self, now: int) -> tuple[Silence, ...]:
        """Returns current silences, the last to end first."""
        current_silences = (silence for silence in self._content.silences if silence.until > now)
        return tuple(sorted(current_silences, key=lambda silence: (-silence.until, silence.id)))

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        """Acknowledges a notice, replacing an earlier acknowledgement. Raises OSError,
        TooManyNotes."""
        with self._lock:
            acknowledgements = self._content.acknowledgements
            other_notes = tuple(
                other for other in acknowledgements if other.id != acknowledgement.id
            )
            _check_room(other_notes)
            new_notes = (*other_notes, acknowledgement)
            self._keep(msgspec.structs.replace(self._content, acknowledgements=new_notes))

    def add_silence(self, silence: Silence) -> None:
        """Adds a silence. Raises OSError, TooManyNotes."""
        with self._lock:
            silences = self._content.silences
            current_silences = tuple(other for other in silences if other.until > silence.time)
            _check_room(current_silences)
            new_silences = (*current_silences, silence)
            self._keep(msgspec.structs.replace(self._content, silences=new_silences))

    def end_silence(self, name: str) -> bool:
        """Ends a silence; returns whether it existed. Raises OSError."""
        with self._lock:
            remaining_silences = tuple(
                silence for silence in self._content.silences if silence.id != name
            )
            if len(remaining_silences) == len(self._content.silences):
                return False
            self._keep(msgspec.structs.replace(self._content, silences=remaining_silences))
            return True

    def forget_resolved(self, standing: Collection[str]) -> None:
        """Drops the acknowledgements of all notices except `standing`, the ids of those not
        resolved."""
        with self._lock:
            acknowledgements = self._content.acknowledgements
            remaining_notes = tuple(note for note in acknowledgements if note.id in standing)
            if len(remaining_notes) < len(acknowledgements):
                try:
                    self._keep(
                        msgspec.structs.replace(self._content, acknowledgements=remaining_notes)
                    )
                except OSError as error:
                    log.error("cannot write acknowledgements error=%r", str(error))


def new_silence_id() -> str:
    return secrets.token_hex(4)


def _check_room(notes: Collection[object]) -> None:
    if len(notes) >= MOST:
        raise TooManyNotes(f"the limit of {MOST:,} notes is reached: remove some first")
