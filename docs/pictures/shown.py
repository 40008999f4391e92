"""What a picture shows, as a hash that the picture carries: a change of it makes the picture old.

A PNG has it in a text chunk, an SVG in a comment; both are found as plain bytes.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = Path(__file__).resolve().parent
KEY: Final = "penstock-shows"
_CARRIED: Final = re.compile(rb"penstock-shows[\0 ]([0-9a-f]{64})")


class Picture(NamedTuple):
    """A file that is made, and the files whose content it shows."""

    path: Path
    what: str
    sources: tuple[str, ...]  # patterns from the repository's root

    def fingerprint(self) -> str:
        """The hash of its sources, names included."""
        summed = hashlib.sha256()
        for path in self._files():
            summed.update(f"{path.relative_to(ROOT)}\0".encode())
            summed.update(hashlib.sha256(path.read_bytes()).digest())
        return summed.hexdigest()

    def is_current(self) -> bool:
        """Whether it was taken of what the sources say now."""
        carried = _CARRIED.search(self.path.read_bytes()) if self.path.exists() else None
        return carried is not None and carried[1].decode() == self.fingerprint()

    def _files(self) -> Iterator[Path]:
        found = {path for pattern in self.sources for path in ROOT.glob(pattern)}
        return (path for path in sorted(found) if path.is_file())


_PAGE: Final = ("audit/page/**/*",)
_COMMANDS: Final = ("audit/headline.py", "penstock/report/*.py", "penstock/status/*.py")

LIGHT: Final = Picture(FOLDER / "page-light.png", "page", _PAGE)
DARK: Final = Picture(FOLDER / "page-dark.png", "page", _PAGE)
RECORDING: Final = Picture(FOLDER / "recording.svg", "output of report or status", _COMMANDS)


def stale() -> Iterator[str]:
    """What has changed since its picture was taken, in words."""
    for what in dict.fromkeys(each.what for each in (LIGHT, DARK, RECORDING)):
        pictures = [each for each in (LIGHT, DARK, RECORDING) if each.what == what]
        if not all(each.is_current() for each in pictures):
            yield f"the {what} has changed since its picture was taken: run make pictures"
