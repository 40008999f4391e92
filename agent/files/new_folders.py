"""What a folder tells that is watched only now, of the time before.

A folder that was just made, or has just got its name, has a past that no event tells of: until it
was watched, names may have come and gone. Its time of modification is that of the last one that
did. If that was the coming of something that is there, in a moment, it had no past worth the name:
a folder is made, and something in it. If names came or went for longer, or the last one went,
nobody knows what there was.
"""

import os
from typing import Final

from agent.blind_times import Stamp
from agent.files.births import born_ns

_MOMENT_NS: Final = 1_000_000_000
_TICK_NS: Final = 20_000_000


def past_of(folder: str, stamp: Stamp, since_ns: int) -> str:
    """What came and went in it from then until now; empty if nothing did, or if it is gone."""
    if stamp.mtime_ns < since_ns - _TICK_NS:
        return ""
    try:
        born = _born_ns(folder)
        if stamp.mtime_ns - max(born, since_ns) > _MOMENT_NS:
            return "names came or went for longer than a second"
        return "" if _is_near(born, stamp) or _has_come(folder, stamp) else "names came and went"
    except OSError:
        return ""


def _has_come(folder: str, stamp: Stamp) -> bool:
    """Whether something is there that was made or moved there when a name came or went for the last
    time; or may have been, where nobody knows when files were made."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if _is_near(entry.stat(follow_symlinks=False).st_ctime_ns, stamp):
                return True
            born = _born_ns(entry.path)
            if not born or _is_near(born, stamp):
                return True
    return False


def _is_near(time_ns: int, stamp: Stamp) -> bool:
    return abs(time_ns - stamp.mtime_ns) <= _TICK_NS


def _born_ns(path: str) -> int:
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return born_ns(fd)
    finally:
        os.close(fd)
