"""Reads administration logs on this machine, with their rotated files, oldest first."""

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from ground.administration.entries import Entry, read_entry
from ground.administration.log import FILE_NAME, MOST_KEPT, rotated
from penstock.cli.failures import Failed

_SYSTEM: Final = Path("/var/lib/penstock")
_PIPELINE: Final = Path("penstock-data")
_LONGEST_LINE: Final = 256 * 1024


def default_places() -> list[Path]:
    """The logs of programs on this machine: of `penstock up` here, and of the system. Raises Failed
    if this user may not look for them."""
    places = []
    denied = ""
    for above in (_PIPELINE, _SYSTEM):
        for program in ("broker", "registry"):
            path = above / program / FILE_NAME
            try:
                path.stat()
                places.append(path)
            except PermissionError:
                denied = denied or str(path)
            except OSError:
                continue
    if denied and not places:
        raise Failed(
            f"{denied}: permission denied: use sudo, or --topic for what agents have shipped"
        )
    return places


class LogFile:
    """One log. `others` is how many of its lines are no entries."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.others = 0

    def __iter__(self) -> Iterator[Entry]:
        """Raises Failed."""
        with ExitStack() as opened:
            for file in reversed(self._opened(opened)):
                yield from self._entries(iter(partial(file.readline, _LONGEST_LINE), b""))

    def _opened(self, opened: ExitStack) -> list[BinaryIO]:
        """The newest first, and all before one is read: what is rotated meanwhile has a higher
        number then, and is met a second time rather than missed."""
        files: dict[tuple[int, int], BinaryIO] = {}
        for number in range(MOST_KEPT + 1):
            path = rotated(self.path, number)
            try:
                file = opened.enter_context(path.open("rb"))
            except FileNotFoundError:
                if number == 0:
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
