"""The snapshots of producer states in a partition's directory: `{offset}.snapshot`.

A snapshot has the state of the producers just before its offset. It is written only when everything
before that offset, including indexes, is on disk: so one beyond the end of a log proves that the
log has lost something. There is one for the beginning of each segment, and a few taken in between;
each bounds how far back recovery must read. A damaged one is ignored.
"""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from broker.storage import layout
from broker.storage.errors import BadSnapshot
from broker.storage.state.producers import ProducerStates
from ground.files.durable_files import replace_file

_BETWEEN: Final = 3  # snapshots kept in addition to those at the beginning of segments

_log = logging.getLogger(__name__)


def write_snapshot(directory: Path, offset: int, producers: ProducerStates) -> None:
    """Writes a snapshot, which a power loss may still remove. Any thread; `producers` is a copy
    that does not change."""
    path = layout.numbered(directory, offset, layout.SNAPSHOT)
    replace_file(path, producers.encode(), sync_name=False)


def load_newest(directory: Path, offsets: Iterable[int], producers: ProducerStates) -> int | None:
    """Loads the newest valid snapshot; returns its offset, or None if there is none."""
    return _load_first(directory, sorted(offsets, reverse=True), producers)


def load_oldest(directory: Path, offsets: Iterable[int], producers: ProducerStates) -> int | None:
    """Loads the oldest valid snapshot; returns its offset, or None if there is none."""
    return _load_first(directory, sorted(offsets), producers)


def _load_first(directory: Path, offsets: Iterable[int], producers: ProducerStates) -> int | None:
    return next((offset for offset in offsets if _load(directory, offset, producers)), None)


def _load(directory: Path, offset: int, producers: ProducerStates) -> bool:
    """Load one snapshot into `producers`, if it is good; else nothing changes."""
    path = layout.numbered(directory, offset, layout.SNAPSHOT)
    try:
        producers.load(path.read_bytes())
    except (BadSnapshot, OSError) as error:
        _log.warning("ignoring snapshot path=%s reason=%r", path, str(error))
        return False
    return True


def superfluous(offsets: Iterable[int], bases: Iterable[int]) -> list[int]:
    """Returns the snapshots that can be removed, in a log whose segments begin at `bases`."""
    at_segments = frozenset(bases)
    first_base = min(at_segments)
    other_offsets = [offset for offset in sorted(offsets) if offset not in at_segments]
    kept_offsets = {offset for offset in other_offsets[-_BETWEEN:] if offset >= first_base}
    return [offset for offset in other_offsets if offset not in kept_offsets]


class Snapshots:
    """The snapshots of a log, and those to be written with its next flush."""

    __slots__ = ("_directory", "_due", "_offsets")

    def __init__(self, directory: Path, offsets: Iterable[int]) -> None:
        self._directory = directory
        self._offsets = sorted(offsets)
        self._due: dict[int, ProducerStates] = {}

    @property
    def is_due(self) -> bool:
        return bool(self._due)

    def request(self, offset: int, producers: ProducerStates) -> None:
        """Requests a snapshot for this offset, unless there is one."""
        if offset not in self._offsets:
            self._due[offset] = producers.copy()

    def take(self, bases: Iterable[int]) -> tuple[list[tuple[int, ProducerStates]], list[Path]]:
        """Returns the snapshots to write now, and the files that are superfluous after that."""
        if not self._due:
            return [], []
        due_snapshots, self._due = list(self._due.items()), {}
        self._offsets += [offset for offset, _ in due_snapshots]
        removable = superfluous(self._offsets, bases)
        self._offsets = [offset for offset in self._offsets if offset not in removable]
        return due_snapshots, [
            layout.numbered(self._directory, offset, layout.SNAPSHOT) for offset in removable
        ]

    def put_back(self, unwritten: Iterable[tuple[int, ProducerStates]]) -> None:
        """Puts back snapshots that could not be written, so that the next flush retries."""
        for offset, producers in unwritten:
            if offset in self._offsets:
                self._offsets.remove(offset)
            self._due[offset] = producers
