"""Reads administration logs on this machine, with their rotated files, oldest first."""

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from ground.administration.entries import Entry, read_entry
from ground.administration.log import FILE_NAME, MOST_KEPT, rotated
from penstock.cli.address_variables import UP
from penstock.cli.failures import Failed

_SYSTEM: Final = Path("/var/lib/penstock")
_PIPELINE: Final = Path("penstock-data")
_LONGEST_LINE: Final = 256 * 1024


def default_places() -> list[Path]:
    """Returns the logs of this machine: those of the `penstock up` whose `environment` the shell
    has read, or else of that in this directory, and those of installed programs. Raises Failed if
    the user may not list them."""
    pipeline = Path(os.environ.get(UP) or _PIPELINE)
    places = []
    denied_path = ""
    for folder in (pipeline, _SYSTEM):
        for program in ("broker", "registry"):
            path = folder / program / FILE_NAME
            try:
                path.stat()
                places.append(path)
            except PermissionError:
                denied_path = denied_path or str(path)
            except OSError:
                continue
    if denied_path and not places:
        raise Failed(
            f"{denied_path}: permission denied: use sudo, or --topic for records shipped by agents"
        )
    return places


class LogFile:
    """The entries of a log and its rotated files. `others` counts the lines that are not
    entries."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.others = 0

    def __iter__(self) -> Iterator[Entry]:
        """Yields the entries, oldest first. Raises Failed."""
        with ExitStack() as stack:
            for file in reversed(self._opened(stack)):
                yield from self._entries(iter(partial(file.readline, _LONGEST_LINE), b""))

    def _opened(self, opened: ExitStack) -> list[BinaryIO]:
        """Opens all files, the newest first, before any is read: a file that is rotated meanwhile
        gets a higher number, and is found twice rather than missed."""
        files: dict[tuple[int, int], BinaryIO] = {}
        for rotations in range(MOST_KEPT + 1):
            path = rotated(self.path, rotations)
            try:
                file = opened.enter_context(path.open("rb"))
            except FileNotFoundError:
                if rotations == 0:
                    raise Failed(f"{path}: no such file") from None
                break
            except OSError as error:
                raise Failed(f"{path}: {(error.strerror or str(error)).lower()}") from None
            status = os.fstat(file.fileno())
            files.setdefault((status.st_dev, status.st_ino), file)
        return list(files.values())

    def _entries(self, lines: Iterable[bytes]) -> Iterator[Entry]:
        for line in lines:
            if line.isspace():
                continue
            try:
                yield read_entry(line)
            except ValueError:
                self.others += 1
