"""What all members of groups have in common: where they are, what they read, that they leave.

`python -m tests.campaigns.groups.KIND_member PLACE`, with a Place as JSON: a process for each, so
that each can be killed and frozen. It leaves on SIGTERM.
"""

import signal
import sys
import threading
from pathlib import Path
from typing import Final

import msgspec

from tests.campaigns.groups.events import Changed, Read
from tests.campaigns.history import Notebook

SESSION_MS: Final = 6_000
COMMIT_SECONDS: Final = 0.2
REFRESH_MS: Final = 1_000  # a topic is looked at again so often, for new partitions


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Of one member: a life of one process."""

    name: str
    group: str
    topic: str
    bootstrap: str
    map_address: str
    directory: str
    began: float
    seed: str
    settings: dict[str, str] = {}

    def notebook(self) -> Notebook:
        return Notebook(Path(self.directory), self.name, self.began)


def arrived() -> tuple[Place, threading.Event]:
    """Who this process is, and what is set when it is to leave."""
    leaving = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: leaving.set())
    return msgspec.json.decode(sys.argv[1], type=Place), leaving


def content(partition: int, number: int) -> bytes:
    return f"{partition} {number}".encode()


class Records:
    """What was read and is not noted yet, by partition."""

    def __init__(self, place: Place, notebook: Notebook) -> None:
        self._place, self._notebook = place, notebook
        self._claims: dict[int, int] = {}
        self._read: dict[int, list[float]] = {}
        self._next: dict[int, int] = {}

    def claim(self, partition: int) -> None:
        """It is this member's from now on."""
        self._claims[partition] = self._claims.get(partition, 0) + 1

    def took(self, partition: int, offset: int, value: bytes, asked: float, had: float) -> None:
        if value != content(partition, offset):
            words = repr(value[:60])
            name, group = self._place.name, self._place.group
            self._notebook.note(Changed(group, name, partition, offset, words))
        if partition in self._read and self._next[partition] != offset:
            self.note_one(partition)
        first = self._read.setdefault(partition, [offset, offset, had, asked])
        first[1], first[3] = offset, asked
        self._next[partition] = offset + 1

    def note(self) -> None:
        for partition in tuple(self._read):
            self.note_one(partition)

    def note_one(self, partition: int) -> None:
        found = self._read.pop(partition, None)
        if found is None:
            return
        first, last, had, asked = found
        self._notebook.note(
            Read(
                self._place.group,
                self._place.name,
                self._claims.get(partition, 0),
                partition,
                int(first),
                int(last),
                had,
                asked,
            )
        )
