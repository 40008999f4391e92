"""Where a file is that has no handle and has left its name."""

import os
from collections.abc import Iterator
from pathlib import Path

from agent.files.followed import Followed
from agent.files.names import folder_of


def find_by_inode(followed: Followed) -> str:
    """The name that it has now in one of its folders, and opens it; empty if it is not there, or
    if nothing could show that it is the same file."""
    if not followed.fingerprint.size:
        return ""
    former = followed.current_path
    for path in _names_of(followed.identity[1], {folder_of(former), folder_of(followed.path)}):
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


def has_its_folder(followed: Followed) -> bool:
    """Whether the folder of its file is there, on the same device: then the file is not."""
    try:
        folder = Path(folder_of(followed.current_path)).stat()
    except OSError:
        return False
    return folder.st_dev == followed.identity[0]


def _names_of(inode: int, folders: set[str]) -> Iterator[str]:
    """Of which device they are must still be seen."""
    for folder in sorted(folders):
        try:
            with os.scandir(folder) as entries:
                found = [each.path for each in entries if each.inode() == inode]
        except OSError:
            continue
        yield from found
