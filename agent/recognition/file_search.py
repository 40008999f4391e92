"""Searches for closed files that were renamed, and for copies that no pattern matches.

A file that was copied before anything of it was read, as by `copytruncate`, may no longer have the
content of the copy.
"""

import contextlib
import os
import stat
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import Final

from agent.open_files.open_file_limit import Handles
from agent.open_files.paths import folder_of
from agent.recognition.file_properties import born_ns, read_head
from agent.recognition.followed import Followed
from agent.recognition.identity import (
    Identity,
    IdentityVerdict,
    SeenFile,
    is_shown,
    moved_away,
    shows_emptied,
)

_MOST_FOLDERS: Final = 1_000


def find_by_inode(followed: Followed, elsewhere: Mapping[int, Sequence[str]]) -> str:
    """Opens the file in one of its folders, or at one of the paths `elsewhere` with its inode
    number. Returns its path; empty if it is not there, or could not be recognised. The folder of
    its real path is searched too, since a symbolic link may lead elsewhere now."""
    if not is_shown(followed.remembered()):
        return ""
    for path in chain(_names_in_its_folders(followed), elsewhere.get(followed.identity[1], ())):
        try:
            fd = followed.open(path, sought=True)
        except OSError:
            fd = None
        followed.trust()
        if fd is not None:
            return path
    return ""


def paths_by_inode(folders: Iterable[str], inodes: Collection[int]) -> dict[int, list[str]]:
    """The paths of files with these inode numbers, in the folders and in those directly below them,
    as for rotated files. Searches at most `_MOST_FOLDERS` folders. The caller checks the device."""
    paths: dict[int, list[str]] = defaultdict(list)
    search = dict.fromkeys(folders)
    for folder in list(search):
        search |= dict.fromkeys(_folders_in(folder)) if len(search) < _MOST_FOLDERS else {}
    for folder in islice(search, _MOST_FOLDERS):
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.inode() in inodes and entry.is_file(follow_symlinks=False):
                    paths[entry.inode()].append(entry.path)
    return paths


def _folders_in(folder: str) -> list[str]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    return []


def find_truncated(followed: Followed, handles: Handles) -> tuple[str, int] | None:
    """The path and descriptor of the file with the source's inode and creation time. It lacks the
    bytes read, so it was truncated before it was renamed."""
    if not followed.born_ns:
        return None
    for path in _names_in_its_folders(followed):
        try:
            fd, status = handles.open(path, followed.path)
        except OSError:
            continue
        identity = status.st_dev, status.st_ino
        seen_file = SeenFile(status.st_size, identity, born_ns=born_ns(fd))
        if moved_away(followed.remembered(), seen_file) is IdentityVerdict.NEW:
            return path, fd
        os.close(fd)
    return None


def other_name(followed: Followed) -> str:
    """Another path of an open file in its folders, after the path at which it was opened was
    removed; empty if there is none."""
    for path in _names_in_its_folders(followed):
        with contextlib.suppress(OSError):
            status = Path(path).lstat()
            if (status.st_dev, status.st_ino) == followed.identity:
                return path
    return ""


def related_names(followed: Followed) -> Iterator[tuple[str, os.stat_result]]:
    """Files in the source's folders whose names begin like its own, as rotators name them."""
    paths = dict.fromkeys([followed.current_path, followed.real_path, followed.path])
    for known_path in filter(None, paths):
        folder, _, name = known_path.rpartition("/")
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
    """The device of the file's folder, or of the nearest existing folder above it; None if unknown.
    While a device is not mounted, its mount point is on another device."""
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
    """Paths with the file's inode number; the caller checks the device."""
    known_paths = {followed.current_path, followed.path, followed.real_path} - {""}
    inode = followed.identity[1]
    for folder in sorted(set(map(folder_of, known_paths))):
        try:
            with os.scandir(folder) as entries:
                paths = [entry.path for entry in entries if entry.inode() == inode]
        except OSError:
            continue
        yield from paths


def was_copied(path: str, since_ns: int, is_meant: Callable[[str], bool]) -> bool:
    """Whether a copy with another beginning than the file's was created since `since_ns`. Only the
    names that rotators give to the newest copy are checked."""
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
    """Like `was_copied`, for a file with this head; the copy `besides` is ignored."""
    return any(
        not is_meant(name) and _is_another(name, head, since_ns, besides)
        for name in _newest_rotated(path)
    )


def _newest_rotated(path: str) -> Iterator[str]:
    pure_path = PurePath(path)
    today = time.strftime("%Y%m%d")
    yield f"{path}.1"
    yield f"{path}-{today}"
    if pure_path.suffix:
        yield str(pure_path.with_name(f"{pure_path.stem}.1{pure_path.suffix}"))
        yield str(pure_path.with_name(f"{pure_path.stem}-{today}{pure_path.suffix}"))


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
