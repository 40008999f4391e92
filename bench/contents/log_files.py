"""Files of log lines: those that are there at once, and those that grow as a schedule says.

A shipper knows a file by how it begins, so that each begins with a line that no other has.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from bench.contents.log_lines import LINE_BYTES, pieces

_TICK_SECONDS = 0.001
_GOLDEN = 0.618034


def first_line(name: str) -> bytes:
    """Begins with the name."""
    return f"{name} ".ljust(LINE_BYTES - 1, ".").encode() + b"\n"


def write_backlog(directory: Path, content: bytes, *, lines: int, files: int = 1) -> int:
    """So many lines in all, evenly over the files, none that is no part of the content. How many
    there are; what was written before with these arguments is taken as it is.

    The files begin where the golden section says: a batch with a thousand lines from each of ten of
    them has none twice, so that compression finds no more in it than if they were of one file.
    """
    each = lines // files
    if not directory.exists():
        directory.mkdir(parents=True)
        for number in range(files):
            start = int(number * _GOLDEN % 1 * (len(content) // LINE_BYTES)) * LINE_BYTES
            with (directory / f"{number:04}.log").open("wb") as file:
                for piece in pieces(content[start:] + content[:start], each):
                    file.write(piece)
    return each * files


def put(backlog: Path, watched: Path) -> None:
    """The backlog's files appear in the watched directory, complete."""
    for file in sorted(backlog.iterdir()):
        (watched / file.name).hardlink_to(file)


class Growth(msgspec.Struct, frozen=True):
    """How files grow: `lines` at a time into one file after the other, every `gap` seconds."""

    paths: Sequence[Path]
    lines: int
    gap: float

    @property
    def rate(self) -> float:
        return self.lines / self.gap


def growth(paths: Sequence[Path], rate: int) -> Growth:
    """At a thousand writes a second, or one line each time if that is more."""
    lines = max(1, round(rate * _TICK_SECONDS))
    return Growth(paths, lines, lines / rate)


def grow(how: Growth, content: bytes, seconds: float) -> int:
    """Lines written. What was held up is made up for: the rate is the schedule's."""
    size = how.lines * LINE_BYTES
    at = 0
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("ab", buffering=0)) for path in how.paths]
        for tick in _ticks(how.gap, seconds):
            files[tick % len(files)].write(content[at : at + size])
            at = at + size if at + 2 * size <= len(content) else 0
    return how.lines * round(seconds / how.gap)


def _ticks(gap: float, seconds: float) -> Iterator[int]:
    start = time.perf_counter()
    for tick in range(round(seconds / gap)):
        left = start + tick * gap - time.perf_counter()
        if left > 0:
            time.sleep(left)
        yield tick
