"""`penstock status --watch`: repeats a command's output until Ctrl-C.

On a terminal each picture overwrites the last one on the alternate screen, which is not cleared
first, as that would flicker. Lines that do not fit are cut off; the last picture remains on the
main screen as a whole. Elsewhere outputs follow each other, separated by blank lines.
"""

import io
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from types import FrameType
from typing import Final, NoReturn

_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l"  # alternate screen, no cursor, no line wrap
_LEAVE: Final = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_TOP: Final = "\x1b[H"
_END_OF_LINE: Final = "\x1b[K\r\n"
_END_OF_SCREEN: Final = "\x1b[J"
_TERMINATED: Final = 128 + signal.SIGTERM


def watch(show: Callable[[], object], every_seconds: float, *, has_blank_lines: bool) -> NoReturn:
    """Calls `show`, which prints to stdout, at this interval until KeyboardInterrupt is raised."""
    if sys.stdout.isatty():
        with _alternate_screen() as draw:
            while True:
                start = time.monotonic()
                draw(_captured(show))
                _sleep(start, every_seconds)
    while True:
        start = time.monotonic()
        show()
        if has_blank_lines:
            print()
        sys.stdout.flush()
        _sleep(start, every_seconds)


def _sleep(began: float, every_seconds: float) -> None:
    time.sleep(max(0.0, began + every_seconds - time.monotonic()))


class _Picture(io.StringIO):
    """Collects output for a terminal."""

    def isatty(self) -> bool:
        return True


def _captured(show: Callable[[], object]) -> str:
    with redirect_stdout(_Picture()) as picture:
        show()
    return picture.getvalue()


@contextmanager
def _alternate_screen() -> Iterator[Callable[[str], None]]:
    last_line = ""

    def draw(picture: str) -> None:
        nonlocal last_line
        last_line = picture
        lines = picture.splitlines()[: max(1, os.get_terminal_size(sys.stdout.fileno()).lines - 1)]
        body = "".join(f"{line}{_END_OF_LINE}" for line in lines)
        sys.stdout.write(f"{_TOP}{body}{_END_OF_SCREEN}")
        sys.stdout.flush()

    def end(_: int, __: FrameType | None) -> None:
        sys.exit(_TERMINATED)

    earlier_handler = signal.signal(signal.SIGTERM, end)
    sys.stdout.write(_ENTER)
    try:
        yield draw
    finally:
        sys.stdout.write(f"{_LEAVE}{last_line}")
        sys.stdout.flush()
        signal.signal(signal.SIGTERM, earlier_handler)
