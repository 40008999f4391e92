"""Files that were copied before anything of them was read, as `copytruncate` does it, to a name
that no pattern matches: it may be that what the copy has is in them no more.
"""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import PurePath

from agent.files.births import born_ns
from agent.files.fingerprints import read_head


def was_copied(path: str, since_ns: int, is_meant: Callable[[str], bool]) -> bool:
    """Whether there is a copy that was made since then and holds anything that the file does not
    begin with. Only names are looked for that rotators give to the newest copy."""
    return any(
        not is_meant(name) and _is_another(name, path, since_ns) for name in _newest_rotated(path)
    )


def _newest_rotated(path: str) -> Iterator[str]:
    named = PurePath(path)
    today = time.strftime("%Y%m%d")
    yield f"{path}.1"
    yield f"{path}-{today}"
    if named.suffix:
        yield str(named.with_name(f"{named.stem}.1{named.suffix}"))
        yield str(named.with_name(f"{named.stem}-{today}{named.suffix}"))


def _is_another(copy: str, path: str, since_ns: int) -> bool:
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
    opened: list[int] = []
    try:
        opened.append(os.open(copy, flags))
        if born_ns(opened[0]) <= since_ns:
            return False
        head = read_head(opened[0])
        opened.append(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        return not read_head(opened[1]).startswith(head)
    except OSError:
        return False
    finally:
        for fd in opened:
            os.close(fd)
