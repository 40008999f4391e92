"""A log file that is rotated when it is long, in one of three ways. None loses a byte.

    Shifted    access.log becomes access.log.1, that access.log.2 …: all are renamed, as logrotate
               does. Older ones than the last twenty are deleted, as on any machine
    Numbered   payments.log becomes payments-1.log, the next one payments-2.log, as log4j can do
    NewNames   system-1.log, then system-2.log: nothing is renamed, a new file has a new name

What is written in one call is in one file: a rotation comes between two calls.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TextIO

SHIFTED_FILES: Final = 20  # that are kept


class Rotation(Protocol):
    """Files are counted from 1 on."""

    def current(self, number: int) -> str:
        """The name of this file while it is written to."""

    def give_way(self, directory: Path, number: int) -> None:
        """This file is closed, and the next one is to be begun."""


@dataclass(frozen=True, slots=True)
class Shifted:
    name: str

    def current(self, number: int) -> str:
        return self.name

    def give_way(self, directory: Path, number: int) -> None:
        def old(age: int) -> Path:
            return directory / (f"{self.name}.{age}" if age else self.name)

        old(SHIFTED_FILES).unlink(missing_ok=True)
        for age in range(min(number, SHIFTED_FILES), 0, -1):
            old(age - 1).rename(old(age))


@dataclass(frozen=True, slots=True)
class Numbered:
    stem: str

    def current(self, number: int) -> str:
        return f"{self.stem}.log"

    def give_way(self, directory: Path, number: int) -> None:
        (directory / self.current(number)).rename(directory / f"{self.stem}-{number}.log")


@dataclass(frozen=True, slots=True)
class NewNames:
    stem: str

    def current(self, number: int) -> str:
        return f"{self.stem}-{number}.log"

    def give_way(self, directory: Path, number: int) -> None:
        """The next one has another name already."""


class RotatedLog:
    """Begins a new file in a directory that has none of that name yet."""

    def __init__(self, directory: Path, rotation: Rotation, most_bytes: int) -> None:
        self.files = 1
        self._directory = directory
        self._rotation = rotation
        self._most_bytes = most_bytes
        self._file = self._begun()

    def write(self, text: str) -> None:
        """At once, and whole."""
        if self._file.tell() >= self._most_bytes:
            self._file.close()
            self._rotation.give_way(self._directory, self.files)
            self.files += 1
            self._file = self._begun()
        self._file.write(text)
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _begun(self) -> TextIO:
        path = self._directory / self._rotation.current(self.files)
        return path.open("x", encoding="utf-8", newline="\n")
