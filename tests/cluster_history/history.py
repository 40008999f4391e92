"""What happened in a run, as events in the order in which they were noted. Values, and their file.

Records are known by their content: writer and number ("all-1/0 17") if it is as that writer made
it, something else if not. So a history can be judged by comparing words.
"""

import gzip
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import msgspec


class Began(msgspec.Struct, frozen=True, tag=True):
    """A writer to one partition, and what it is promised."""

    writer: str
    partition: int
    acks: int  # -1: all
    idempotent: bool
    at: float = 0.0


class Sent(msgspec.Struct, frozen=True, tag=True):
    """Before the first attempt."""

    writer: str
    number: int
    at: float = 0.0


class Acknowledged(msgspec.Struct, frozen=True, tag=True):
    writer: str
    number: int
    offset: int  # -1: not told
    broker: int  # who did; 0: not known
    at: float = 0.0


class Failed(msgspec.Struct, frozen=True, tag=True):
    """A writer's record was given up, by itself or for ever. Nobody knows what became of it."""

    writer: str
    number: int
    why: str
    at: float = 0.0


class Read(msgspec.Struct, frozen=True, tag=True):
    reader: str
    partition: int
    offset: int
    content: str
    at: float = 0.0


class Refused(msgspec.Struct, frozen=True, tag=True):
    """A reader was told that it cannot go on where it is."""

    reader: str
    partition: int
    why: str
    at: float = 0.0


class Mapped(msgspec.Struct, frozen=True, tag=True):
    """What ZooKeeper said of a partition; each change that was seen."""

    partition: int
    leader: int  # -1: none
    epoch: int
    in_sync: tuple[int, ...]
    version: int
    at: float = 0.0


class Stands(msgspec.Struct, frozen=True, tag=True):
    """What a consumer that knows nothing of before reads when all has come to rest."""

    partition: int
    offset: int
    content: str
    at: float = 0.0


class Done(msgspec.Struct, frozen=True, tag=True):
    """An action of the script, when it was over."""

    action: str
    at: float = 0.0


class Trouble(msgspec.Struct, frozen=True, tag=True):
    """What must never happen, whatever is done to a cluster: a broker ended by itself."""

    what: str
    at: float = 0.0


Event = Began | Sent | Acknowledged | Failed | Read | Refused | Mapped | Stands | Done | Trouble
E = TypeVar("E", bound=msgspec.Struct)


class History:
    """Grows from all threads."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.events: list[Event] = list(events)
        self.began = time.monotonic()

    def note(self, event: Event) -> None:
        at = round(time.monotonic() - self.began, 4)
        self.events.append(msgspec.structs.replace(event, at=at))

    def of(self, kind: type[E]) -> list[E]:
        return [each for each in self.events if isinstance(each, kind)]

    def save(self, path: Path) -> None:
        """A line of JSON for each event."""
        encoder = msgspec.json.Encoder()
        with gzip.open(path, "wb", compresslevel=3) as file:
            file.writelines(encoder.encode(each) + b"\n" for each in self.events)

    @classmethod
    def load(cls, path: Path) -> "History":
        decoder = msgspec.json.Decoder(Event)
        with gzip.open(path, "rb") as file:
            return cls(decoder.decode(line) for line in file)
