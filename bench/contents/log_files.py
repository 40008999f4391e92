"""Log files: complete ones, and files that grow on a schedule.

A shipper identifies a file by its first bytes, so every file begins with a unique line.
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
    """Returns a line that begins with `name`."""
    return f"{name} ".ljust(LINE_BYTES - 1, ".").encode() + b"\n"


def write_backlog(directory: Path, content: bytes, *, lines: int, files: int = 1) -> int:
    """Writes `lines` lines, spread evenly over the files, unless the directory exists; returns the
    number of lines.

    The files begin at points that follow the golden section. A batch with a thousand lines from
    each of ten files repeats none of them, so it compresses no better than one from a single file.
    """
    lines_per_file = lines // files
    if not directory.exists():
        directory.mkdir(parents=True)
        for number in range(files):
            start = int(number * _GOLDEN % 1 * (len(content) // LINE_BYTES)) * LINE_BYTES
            with (directory / f"{number:04}.log").open("wb") as file:
                for piece in pieces(content[start:] + content[:start], lines_per_file):
                    file.write(piece)
    return lines_per_file * files


def put(backlog: Path, watched: Path) -> None:
    """Makes the backlog's complete files appear in the watched directory."""
    for file in sorted(backlog.iterdir()):
        (watched / file.name).hardlink_to(file)


class Growth(msgspec.Struct, frozen=True):
    """A schedule for growing files: `lines` at a time into one file after the other, every `gap`
    seconds."""

    paths: Sequence[Path]
    lines: int
    gap: float

    @property
    def rate(self) -> float:
        return self.lines / self.gap


def growth(paths: Sequence[Path], rate: int) -> Growth:
    """Returns a schedule of a thousand writes a second, or of one line at a time for lower
    rates."""
    lines = max(1, round(rate * _TICK_SECONDS))
    return Growth(paths, lines, lines / rate)


def grow(schedule: Growth, content: bytes, seconds: float) -> int:
    """Appends lines on schedule, catching up after delays; returns the number of lines."""
    size = schedule.lines * LINE_BYTES
    position = 0
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("ab", buffering=0)) for path in schedule.paths]
        for tick in _ticks(schedule.gap, seconds):
            files[tick % len(files)].write(content[position : position + size])
            position = position + size if position + 2 * size <= len(content) else 0
    return schedule.lines * round(seconds / schedule.gap)


def _ticks(gap: float, seconds: float) -> Iterator[int]:
    start = time.perf_counter()
    for tick in range(round(seconds / gap)):
        pause = start + tick * gap - time.perf_counter()
        if pause > 0:
            time.sleep(pause)
        yield tick
