"""The programs' log files, which `penstock up` truncates when they are long.

Programs write with O_APPEND, so they continue at the beginning after a truncation. The former
content is kept in `{name}.log.1`, so a program has at most two files of about `LONGEST` bytes. A
line written in the microseconds between copy and truncation is lost. Symbolic links are not
followed.
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
    """Opens a program's log file; returns its descriptor. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, 0o644)


def size(path: Path) -> int:
    """Returns the size of the file; 0 if the file does not exist."""
    with suppress(OSError):
        return path.stat().st_size
    return 0


def cut(path: Path, longest: int = LONGEST) -> bool:
    """Truncates the file if it is too long; returns whether it was too long."""
    if size(path) <= longest:
        return False
    old_path = path.with_name(f"{path.name}.1")
    # On a full disk there is no copy, but the truncation frees space.
    with suppress(OSError):
        old_path.unlink(missing_ok=True)
        shutil.copyfile(path, old_path)
    with suppress(OSError):
        os.truncate(path, 0)
    return True


def last_lines(path: Path, since: int, count: int) -> tuple[str, ...]:
    """Returns the last lines written after position `since`, made printable."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            begin = since if since <= end else 0  # truncated meanwhile
            file.seek(max(begin, end - _LAST_BYTES))
            text = file.read(_LAST_BYTES).decode(errors="replace")
    except OSError:
        return ()
    lines = [line for line in text.splitlines() if line.strip()]
    return tuple(one_line(line)[:_LONGEST_LINE] for line in lines[-count:])
