"""The programs' log files, which they append to and this process keeps short.

A program writes with O_APPEND, so the file can be emptied under its hands and it goes on at the
beginning. What was in it is kept once, as `{name}.log.1`: no program ever has more than two files
of about `LONGEST` bytes. A line written between copying and emptying, some microseconds, is lost.
Links in their places, which may lead to anything, are not written through.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from ground.printable import one_line

LONGEST: Final = 16 * 1024 * 1024
_LAST_BYTES: Final = 8 * 1024
_LONGEST_LINE: Final = 500


def open_log(path: Path) -> int:
    """A descriptor for a program's output. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    how = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, how, 0o644)


def size(path: Path) -> int:
    """0 if there is none."""
    with suppress(OSError):
        return path.stat().st_size
    return 0


def cut(path: Path, longest: int = LONGEST) -> bool:
    """Whether the file was too long, and therefore begins anew."""
    if size(path) <= longest:
        return False
    kept = path.with_name(f"{path.name}.1")
    # A full disk keeps no old part, and has all the more need for the file to be cut.
    with suppress(OSError):
        kept.unlink(missing_ok=True)
        shutil.copyfile(path, kept)
    with suppress(OSError):
        os.truncate(path, 0)
    return True


def last_lines(path: Path, since: int, count: int) -> tuple[str, ...]:
    """The last of those that were written beyond `since`, fit for a terminal."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            begin = since if since <= end else 0  # it was cut meanwhile
            file.seek(max(begin, end - _LAST_BYTES))
            text = file.read(_LAST_BYTES).decode(errors="replace")
    except OSError:
        return ()
    lines = [line for line in text.splitlines() if line.strip()]
    return tuple(one_line(line)[:_LONGEST_LINE] for line in lines[-count:])
