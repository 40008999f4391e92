"""Where a file is that has no handle and has left its name; and copies of files beside them, under
names that no pattern matches.

A file that was copied before anything of it was read, as `copytruncate` does it, may not have any
more what the copy has.
"""

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath

from agent.names import folder_of
from agent.recognition.followed import Followed
from agent.recognition.handles import Handles
from agent.recognition.identity import (
    Identity,
    IdentityVerdict,
    SeenFile,
    is_shown,
    moved_away,
    shows_emptied,
)
from agent.recognition.seen import born_ns, read_head


def find_by_inode(followed: Followed) -> str:
    """The name that it has now in one of its folders, and opens it; empty if it is not there, or
    if nothing could show that it is the same file. Behind a symbolic link that leads elsewhere by
    now, its file lies where it lay."""
    if not is_shown(followed.remembered()):
        return ""
    for path in _names_in_its_folders(followed):
        try:
            fd = followed.open(path, sought=True)
        except OSError:
            fd = None
        followed.trust()
        if fd is not None:
            return path
    return ""


def find_truncated(followed: Followed, handles: Handles) -> tuple[str, int] | None:
    """Where its file is by now, opened, if that was made when it was: it has not what was read of
    it, so it was truncated before it was renamed."""
    if not followed.born_ns:
        return None
    for path in _names_in_its_folders(followed):
        try:
            fd, status = handles.open(path, followed.path)
        except OSError:
            continue
        there = status.st_dev, status.st_ino
        seen = SeenFile(status.st_size, there, born_ns=born_ns(fd))
        if moved_away(followed.remembered(), seen) is IdentityVerdict.NEW:
            return path, fd
        os.close(fd)
    return None


def other_name(followed: Followed) -> str:
    """One that its file has in one of its folders, after that was removed by which it was opened;
    empty if it has none there."""
    for path in _names_in_its_folders(followed):
        with contextlib.suppress(OSError):
            status = Path(path).lstat()
            if (status.st_dev, status.st_ino) == followed.identity:
                return path
    return ""


def related_names(followed: Followed) -> Iterator[tuple[str, os.stat_result]]:
    """Files in its folders whose names begin as its own does, as those of rotators do."""
    places = dict.fromkeys([followed.current_path, followed.real_path, followed.path])
    for place in [each for each in places if each]:
        folder, _, name = place.rpartition("/")
        stem = PurePath(name).stem
        try:
            with os.scandir(folder or "/") as entries:
                for entry in entries:
                    if entry.name.startswith(stem):
                        status = entry.stat(follow_symlinks=False)
                        if stat.S_ISREG(status.st_mode):
                            yield entry.path, status
        except OSError:
            continue


def device_above(followed: Followed) -> int | None:
    """Of the folder of its file, or, if that was removed, of the nearest one that is there. What a
    device was mounted on is there without it, on another one. None if nobody can tell."""
    folder = folder_of(followed.real_path or followed.current_path)
    while True:
        try:
            return Path(folder).stat().st_dev
        except (FileNotFoundError, NotADirectoryError):
            if len(folder) <= 1:
                return None
            folder = folder_of(folder)
        except OSError:
            return None


def _names_in_its_folders(followed: Followed) -> Iterator[str]:
    """Of its inode; of which device they are must still be seen."""
    places = {followed.current_path, followed.path, followed.real_path} - {""}
    inode = followed.identity[1]
    for folder in sorted(set(map(folder_of, places))):
        try:
            with os.scandir(folder) as entries:
                found = [each.path for each in entries if each.inode() == inode]
        except OSError:
            continue
        yield from found


def was_copied(path: str, since_ns: int, is_meant: Callable[[str], bool]) -> bool:
    """Whether there is a copy that was made since then and holds anything that the file does not
    begin with. Only names are looked for that rotators give to the newest copy."""
    with contextlib.suppress(OSError), _opened(path) as fd:
        return shows_another_copy(path, read_head(fd), since_ns, is_meant)
    return False


def shows_another_copy(
    path: str,
    head: bytes,
    since_ns: int,
    is_meant: Callable[[str], bool],
    besides: Identity | None = None,
) -> bool:
    """The same of a file that begins so, and was copied to that file."""
    return any(
        not is_meant(name) and _is_another(name, head, since_ns, besides)
        for name in _newest_rotated(path)
    )


def _newest_rotated(path: str) -> Iterator[str]:
    named = PurePath(path)
    today = time.strftime("%Y%m%d")
    yield f"{path}.1"
    yield f"{path}-{today}"
    if named.suffix:
        yield str(named.with_name(f"{named.stem}.1{named.suffix}"))
        yield str(named.with_name(f"{named.stem}-{today}{named.suffix}"))


def _is_another(copy: str, head: bytes, since_ns: int, besides: Identity | None) -> bool:
    with contextlib.suppress(OSError), _opened(copy, os.O_NOFOLLOW) as fd:
        status = os.fstat(fd)
        is_another = (status.st_dev, status.st_ino) != besides
        return is_another and shows_emptied(born_ns(fd), read_head(fd), head, since_ns)
    return False


@contextlib.contextmanager
def _opened(path: str, flags: int = 0) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    try:
        yield fd
    finally:
        os.close(fd)
