"""Reproducible tar archives: equal files give equal bytes.

Members belong to root, unless the caller names another owner, and have the caller's time and mode
0755 or 0644. A folder's members are sorted by name.
"""

import gzip
import hashlib
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO


def write_tar(file: IO[bytes] | gzip.GzipFile, tree: Path, inside: str, time: int) -> None:
    """Writes the files of `tree` below a folder named `inside`, or without one if it is empty."""
    _write(file, members_in(tree, inside), time)


def write_gz(
    path: Path,
    members: Iterable[tuple[Path, str]],
    time: int,
    owners: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Writes a compressed tar of these (path, name) pairs, in this order. Folders in `owners`
    belong to that user, and to no other."""
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=time) as gzip_file,
    ):
        _write(gzip_file, members, time, owners)


def members_in(tree: Path, inside: str = "") -> Iterator[tuple[Path, str]]:
    if inside:
        yield tree, inside
    for path in sorted(tree.rglob("*")):
        yield path, str(inside / path.relative_to(tree))


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(
    file: IO[bytes] | gzip.GzipFile,
    members: Iterable[tuple[Path, str]],
    time: int,
    owners: Mapping[str, int] = MappingProxyType({}),
) -> None:
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, name in members:
            member = _member(path, name, time)
            if name in owners:
                member.uid = member.gid = owners[name]
                member.uname = member.gname = ""
                member.mode = 0o700
            if member.isreg():
                with path.open("rb") as content:
                    archive.addfile(member, content)
            else:
                archive.addfile(member)


def _member(path: Path, name: str, time: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.mtime = time
    member.uname = member.gname = "root"
    member.mode = 0o755
    if path.is_symlink():
        member.type, member.linkname = tarfile.SYMTYPE, str(path.readlink())
    elif path.is_dir():
        member.type = tarfile.DIRTYPE
    elif path.is_file():
        status = path.stat()
        member.size = status.st_size
        member.mode = 0o755 if status.st_mode & 0o100 else 0o644
    else:
        raise ValueError(f"{path} is not a file, folder or link")
    return member
