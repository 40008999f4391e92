"""A disk that is small enough to be filled: a tmpfs in the place of a directory."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

FILLER: Final = "filler"


class SmallDisk:
    """Of one directory. Without root there is none, and nothing is filled."""

    def __init__(self, directory: Path, size: str) -> None:
        self.directory = directory
        self._size = size
        self._mounted = False

    def mount(self) -> None:
        """Before the first start of whose data these are: it would take a directory that was moved
        to another disk for a copy."""
        if os.geteuid() == 0:
            self.directory.mkdir(parents=True, exist_ok=True)
            options = f"size={self._size},mode=700"
            command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.directory)]
            subprocess.run(command, check=True)
            self._mounted = True

    def fill(self) -> bool:
        """A file takes all that is left of it."""
        if not self._mounted:
            return False
        with (self.directory / FILLER).open("ab", buffering=0) as filler:
            for piece in (bytes(1 << 20), bytes(4096)):
                with suppress(OSError):  # no room for another one
                    while True:
                        filler.write(piece)
        return True

    def free(self) -> bool:
        if self._mounted:
            (self.directory / FILLER).unlink(missing_ok=True)
        return self._mounted

    def unmount(self) -> None:
        if self._mounted:
            subprocess.run(["umount", "--lazy", str(self.directory)], check=False)
            self._mounted = False
