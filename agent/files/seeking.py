"""Where a file is that has no handle and has left its name."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePath

from agent.files.births import born_ns
from agent.files.followed import Followed
from agent.files.handles import Handles
from agent.files.names import folder_of


def find_by_inode(followed: Followed) -> str:
    """The name that it has now in one of its folders, and opens it; empty if it is not there, or
    if nothing could show that it is the same file. Behind a symbolic link that leads elsewhere by
    now, its file lies where it lay."""
    if not (followed.fingerprint.size or followed.born_ns):
        return ""
    former = followed.current_path
    for path in _names_in_its_folders(followed):
        followed.current_path = path
        try:
            fd = followed.open()
        except OSError:
            fd = None
        followed.suspect = False
        followed.current_path = former
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
            fd, status = handles.open(path)
        except OSError:
            continue
        if (status.st_dev, status.st_ino) == followed.identity and born_ns(fd) == followed.born_ns:
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


def has_its_folder(followed: Followed) -> bool:
    """Whether the folder of its file is there, or was removed from one that is: on the same device,
    so that the file is not. What a device was mounted on is there without it, on another one."""
    folder = folder_of(followed.real_path or followed.current_path)
    while True:
        try:
            return Path(folder).stat().st_dev == followed.identity[0]
        except (FileNotFoundError, NotADirectoryError):
            if len(folder) <= 1:
                return False
            folder = folder_of(folder)
        except OSError:
            return False


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
