"""What happened in a run, as events: values, and the files that they are in.

    History    all events, in memory, noted by threads
    Notebook   the events of one process, or of one part of one: a line of JSON each, written at
               once. So nothing is lost when it is killed, and what is not noted was not done

Times are seconds since the run began, by a clock that all processes of a machine share.
"""

import gzip
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import msgspec

_SUFFIX: Final = ".jsonl"


class Done(msgspec.Struct, frozen=True, tag=True):
    """An action of the script, when it was over."""

    action: str
    at: float = 0.0


class Trouble(msgspec.Struct, frozen=True, tag=True):
    """What must never happen; begins with the rule that it breaks: `stuck: …`."""

    what: str
    at: float = 0.0


E = TypeVar("E", bound=msgspec.Struct)


class Notes(Protocol):
    def note(self, event: Any) -> None: ...


class History:
    """Grows from all threads."""

    def __init__(self, events: Iterable[Any] = ()) -> None:
        self.events: list[Any] = list(events)
        self.began = time.monotonic()

    def note(self, event: Any) -> None:
        at = round(time.monotonic() - self.began, 4)
        self.events.append(msgspec.structs.replace(event, at=at))

    def of(self, kind: type[E]) -> list[E]:
        return [each for each in self.events if isinstance(each, kind)]

    def save(self, path: Path) -> None:
        encoder = msgspec.json.Encoder()
        with gzip.open(path, "wb", compresslevel=3) as file:
            file.writelines(encoder.encode(each) + b"\n" for each in self.events)

    @classmethod
    def load(cls, path: Path, of: Any) -> "History":
        """`of`: the type of its events. A directory has notebooks."""
        if path.is_dir():
            return cls(sorted(_noted(path, of), key=lambda event: event.at))
        decoder = msgspec.json.Decoder(of)
        with gzip.open(path, "rb") as file:
            return cls(decoder.decode(line) for line in file)


class Notebook:
    def __init__(self, directory: Path, name: str, began: float) -> None:
        path = directory / f"{name}{_SUFFIX}"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._began = began
        self._encoder = msgspec.json.Encoder()

    def now(self) -> float:
        return round(time.monotonic() - self._began, 4)

    def note(self, event: Any) -> None:
        """One write, so that what is killed leaves whole lines."""
        noted = msgspec.structs.replace(event, at=self.now())
        os.write(self._file, self._encoder.encode(noted) + b"\n")

    def close(self) -> None:
        os.close(self._file)


def _noted(directory: Path, of: Any) -> Iterator[Any]:
    decoder = msgspec.json.Decoder(of)
    for path in sorted(directory.glob(f"*{_SUFFIX}")):
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                yield decoder.decode(line)
