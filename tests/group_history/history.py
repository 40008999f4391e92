"""What happened to groups in a run, as events. Values, and the files that they are in.

Whoever takes part writes a file of its own, a line for each event, at once: so nothing is lost when
it is killed, and what it has not noted it has not done. Times are seconds since the run began, by a
clock that all processes of a machine share.
"""

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec

UNKNOWN: Final = -1  # a generation that a client does not tell; an answer that is not one
END: Final = "end"  # who asks when all is over
_SUFFIX: Final = ".jsonl"


class Written(msgspec.Struct, frozen=True, tag=True):
    """A record was acknowledged with acks=all. Its number is its offset."""

    partition: int
    offset: int
    at: float = 0.0


class Synced(msgspec.Struct, frozen=True, tag=True):
    """A member was told by its coordinator what is its own in a generation."""

    group: str
    member: str  # who it is here; by its process
    member_id: str  # and there
    generation: int
    partitions: tuple[int, ...]
    asked: float
    at: float = 0.0


class Saved(msgspec.Struct, frozen=True, tag=True):
    """A generation as it stands in ZooKeeper: what each member owns, by its id there."""

    group: str
    generation: int
    owners: dict[str, tuple[int, ...]]
    at: float = 0.0


class Committing(msgspec.Struct, frozen=True, tag=True):
    """Before a commit is sent."""

    group: str
    member: str
    number: int  # of this member's commits
    member_id: str
    generation: int
    offsets: dict[int, int]  # the next one to read, by partition
    at: float = 0.0


class Committed(msgspec.Struct, frozen=True, tag=True):
    """What a commit was answered: 0 if it is acknowledged, UNKNOWN if that is not known."""

    group: str
    member: str
    number: int
    code: int
    at: float = 0.0


class Fetched(msgspec.Struct, frozen=True, tag=True):
    """What somebody was told is committed; below 0 where nothing is."""

    group: str
    member: str
    offsets: dict[int, int]
    asked: float
    at: float = 0.0


class Read(msgspec.Struct, frozen=True, tag=True):
    """Some records, one after the other, within one claim. `had` is when the first of them was
    there, `asked` when the last of them was asked for: in between the partition was its own."""

    group: str
    member: str
    claim: int  # of this member's; another one after each time that the partition was not its own
    partition: int
    first: int
    last: int
    had: float
    asked: float
    at: float = 0.0


class Changed(msgspec.Struct, frozen=True, tag=True):
    """A record that was read is not what was written at its offset."""

    group: str
    member: str
    partition: int
    offset: int
    content: str
    at: float = 0.0


class Ended(msgspec.Struct, frozen=True, tag=True):
    """How far a partition was written when all was over."""

    partition: int
    end: int
    at: float = 0.0


class Done(msgspec.Struct, frozen=True, tag=True):
    """An action of the script, when it was over."""

    action: str
    at: float = 0.0


class Trouble(msgspec.Struct, frozen=True, tag=True):
    """What must never happen; begins with the rule that it breaks: `stuck: …`."""

    what: str
    at: float = 0.0


Event = (
    Written
    | Synced
    | Saved
    | Committing
    | Committed
    | Fetched
    | Read
    | Changed
    | Ended
    | Done
    | Trouble
)
E = TypeVar("E", bound=msgspec.Struct)


class Notebook:
    """Of one process, or of one part of one."""

    def __init__(self, directory: Path, name: str, began: float) -> None:
        path = directory / f"{name}{_SUFFIX}"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._began = began
        self._encoder = msgspec.json.Encoder()

    def now(self) -> float:
        return round(time.monotonic() - self._began, 4)

    def note(self, event: Event) -> None:
        """One write, so that what is killed leaves whole lines."""
        noted = msgspec.structs.replace(event, at=self.now())
        os.write(self._file, self._encoder.encode(noted) + b"\n")

    def close(self) -> None:
        os.close(self._file)


def write(path: Path, events: Iterable[Event]) -> None:
    """A file as it is."""
    encoder = msgspec.json.Encoder()
    path.write_bytes(b"".join(encoder.encode(each) + b"\n" for each in events))


class History:
    """All events, by time."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events: list[Event] = sorted(events, key=lambda event: event.at)

    def of(self, kind: type[E]) -> list[E]:
        return [each for each in self.events if isinstance(each, kind)]

    @classmethod
    def load(cls, directory: Path) -> "History":
        return cls(_events(directory))


def _events(directory: Path) -> Iterator[Event]:
    decoder = msgspec.json.Decoder(Event)
    for path in sorted(directory.glob(f"*{_SUFFIX}")):
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                yield decoder.decode(line)
