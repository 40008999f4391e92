"""Decides which files an agent opens, and through which links.

An agent can often read more than the applications whose folders it follows. An application could
link to any file on the host, and the agent would ship that file.

Rule 1: only regular files are opened. Opening a FIFO can block for ever, and opening a device can
have side effects.

Rule 2 (`same_owner`): a symbolic link created by root or the agent's own user may lead anywhere. A
link of any other user may lead to that user's files, and to world-readable files. This includes
links in place of folders, and links to links.

Rule 3 (`same_owner`): a file with several names counts as the target of a link, created by the
owner of its folder. If the folder is world-writable, the creator is unknown.

Rule 4: a file that an earlier process kept open, or that was searched elsewhere, is judged by the
path that the input matches. If that path is gone, it counts as a link, too, unless the file was
only renamed within its folder, or removed.

Rule 5: Penstock's own secrets and journal are never opened, under any name.

The checks apply to the file that is then read, so replacing a file meanwhile does not bypass them.
A path without links is recognised by the kernel's path of the open file; any other path is resolved
step by step, like in the kernel, with a descriptor for each folder.
"""

import contextlib
import errno
import os
import stat
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, get_args

import msgspec

from agent.open_files.paths import DELETED, below
from ground.printable import one_line
from ground.settings import WORD

_LOOK: Final = os.O_PATH | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MOST_STEPS: Final = 128  # of a path, including those of all links
_LOOK_EVERY_SECONDS: Final = 1.0  # at the inodes of secrets, which may have other names
_ROOT: Final = 0
_UNKNOWN: Final = -1


class FollowLinks(StrEnum):
    """The symbolic links through which files are read."""

    SAME_OWNER = "same_owner"
    ALWAYS = "always"


class SecretFiles:
    """The agent's own files, which may be replaced while it runs, and its folder's real path. In
    that folder, `readable` has what the agent wrote to be shipped."""

    def __init__(self, files: Collection[str] = (), folder: str = "", readable: str = "") -> None:
        self._files = frozenset(files)
        self._folder = below(folder, "") if folder else ""
        self._readable = below(below(folder, readable), "") if readable else ""
        self._identities: frozenset[tuple[int, int]] = frozenset()
        self._looked_at = float("-inf")

    def has(self, status: os.stat_result, path: str) -> bool:
        is_own = bool(self._folder) and path.startswith(self._folder)
        is_readable = bool(self._readable) and path.startswith(self._readable)
        if path in self._files or (is_own and not is_readable):
            return True
        now = time.monotonic()
        if now - self._looked_at > _LOOK_EVERY_SECONDS:
            self._identities, self._looked_at = frozenset(self._there()), now
        return (status.st_dev, status.st_ino) in self._identities

    def _there(self) -> Iterator[tuple[int, int]]:
        for path in self._files:
            with contextlib.suppress(OSError):
                status = Path(path).stat()
                yield status.st_dev, status.st_ino


def files_named(config: msgspec.Struct) -> Iterator[str]:
    """All files named in a part of a configuration."""
    for field in msgspec.structs.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, msgspec.Struct):
            yield from files_named(value)
        elif value and any(
            isinstance(meta, msgspec.Meta) and (meta.extra or {}).get(WORD) == "file"
            for meta in get_args(field.type)
        ):
            yield value


class _ResolvedFile(msgspec.Struct):
    """A file, and the links that led to it."""

    fd: int
    status: os.stat_result
    makers: dict[int, str]  # the first link of each user
    all_may_read: bool


class Opening:
    """Opens files by the rules of this module. Thread-safe."""

    def __init__(
        self,
        follow: FollowLinks = FollowLinks.SAME_OWNER,
        secrets: SecretFiles | None = None,
    ) -> None:
        self._follow = follow
        self._secrets = secrets or SecretFiles()

    def open(self, path: str, known_as: str = "") -> tuple[int, os.stat_result]:
        """Opens a file; the caller closes it. Raises OSError, also if the rules forbid it.
        `known_as`: the path that the input matches, for a file searched elsewhere."""
        fd, status = self._open(path)
        if known_as:
            try:
                self.check_kept(fd, known_as)
            except OSError:
                os.close(fd)
                raise
        return fd, status

    def _open(self, path: str) -> tuple[int, os.stat_result]:
        fd = os.open(path, _LOOK)
        try:
            status, real_path = os.fstat(fd), _name_of(fd)
            is_direct = real_path == path and status.st_nlink <= 1
            if is_direct or self._follow is FollowLinks.ALWAYS:
                return self._checked(path, fd, status, real_path), status
        finally:
            os.close(fd)
        resolved_file = _resolve(path)
        try:
            _check_makers(
                path,
                resolved_file.status,
                resolved_file.makers,
                all_may_read=resolved_file.all_may_read,
            )
            return self._checked(
                path, resolved_file.fd, resolved_file.status, _name_of(resolved_file.fd)
            ), resolved_file.status
        finally:
            os.close(resolved_file.fd)

    def check_kept(self, fd: int, path: str) -> None:
        """Checks that the rules allow opening this file as `path`, as an earlier process may have
        opened it under other rules. Raises OSError."""
        status, real_path = os.fstat(fd), _name_of(fd)
        name = real_path.removesuffix(DELETED)
        self._check_secret(path, status, name)
        names_left = status.st_nlink - (name == real_path)  # besides this one
        is_direct = Path(name).parent == Path(path).parent and not names_left
        if not is_direct and self._follow is not FollowLinks.ALWAYS:
            links_by_user, is_world_readable = _kept_makers(path, name, status)
            _check_makers(path, status, links_by_user, all_may_read=is_world_readable)

    def _check_secret(self, path: str, status: os.stat_result, real: str) -> None:
        if self._secrets.has(status, real):
            raise OSError(errno.EACCES, "the file belongs to the agent itself", path)

    def _checked(self, path: str, fd: int, status: os.stat_result, real: str) -> int:
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        self._check_secret(path, status, real)
        return os.open(f"/proc/self/fd/{fd}", _READ)


def _check_makers(
    path: str, status: os.stat_result, makers: Mapping[int, str], *, all_may_read: bool
) -> None:
    owner = status.st_uid
    trusted_users = {_ROOT, os.geteuid(), owner}
    if all_may_read:
        return
    for user, link in makers.items():
        if user not in trusted_users:
            creator = "" if user == _UNKNOWN else f" of user {user}"
            reason = f"follow_links: {one_line(link)} is a link{creator} to a file of user {owner}"
            raise OSError(errno.EACCES, reason, path)


def _kept_makers(path: str, name: str, status: os.stat_result) -> tuple[Mapping[int, str], bool]:
    """The creators of the links from `path` to an open file, and whether it is world-readable. If
    `path` no longer leads there, it counts as a link of its folder's owner."""
    with contextlib.suppress(OSError):
        resolved_file = _resolve(path)
        os.close(resolved_file.fd)
        if os.path.samestat(resolved_file.status, status):
            return resolved_file.makers, resolved_file.all_may_read
    user = _UNKNOWN
    with contextlib.suppress(OSError):
        user = _maker_in(Path(path).parent.stat())
    with contextlib.suppress(OSError):
        resolved_file = _resolve(name)
        os.close(resolved_file.fd)
        if os.path.samestat(resolved_file.status, status):
            return {user: path, **resolved_file.makers}, resolved_file.all_may_read
    return {user: path}, False


def _maker_in(folder: os.stat_result) -> int:
    return _UNKNOWN if folder.st_mode & stat.S_IWOTH else folder.st_uid


def _resolve(path: str) -> _ResolvedFile:
    """Resolves a path like the kernel; the caller closes the file."""
    links_by_user: dict[int, str] = {}
    is_world_readable, steps = True, 0
    parts = deque(path.split("/"))
    folder_fd = os.open("/", _LOOK)
    try:
        folder = status = os.fstat(folder_fd)
        while parts:
            part = parts.popleft()
            if part in {"", "."}:
                continue
            steps += 1
            if steps > _MOST_STEPS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            folder = status
            is_world_readable = is_world_readable and bool(folder.st_mode & stat.S_IXOTH)
            entry_fd = os.open(part, _LOOK | os.O_NOFOLLOW, dir_fd=folder_fd)
            try:
                status = os.fstat(entry_fd)
                if stat.S_ISLNK(status.st_mode):
                    links_by_user.setdefault(status.st_uid, _name_of(entry_fd))
                    link, entry_fd = entry_fd, _behind(entry_fd, part, folder_fd, parts)
                    os.close(link)
                    status = os.fstat(entry_fd)
                folder_fd, entry_fd = entry_fd, folder_fd
            finally:
                os.close(entry_fd)
        if status.st_nlink > 1 and stat.S_ISREG(status.st_mode):
            links_by_user.setdefault(_maker_in(folder), path)
    except OSError:
        os.close(folder_fd)
        raise
    is_world_readable = is_world_readable and bool(status.st_mode & stat.S_IROTH)
    return _ResolvedFile(folder_fd, status, links_by_user, is_world_readable)


def _behind(link: int, name: str, folder: int, parts: deque[str]) -> int:
    """The folder at which a link's target starts; adds the target to the remaining parts."""
    if os.fstat(link).st_dev == Path("/proc").stat().st_dev:  # its text is not its target
        return os.open(name, _LOOK, dir_fd=folder)
    target = os.readlink("", dir_fd=link)
    start_fd = os.open("/" if target.startswith("/") else ".", _LOOK, dir_fd=folder)
    parts.extendleft(reversed(target.split("/")))
    return start_fd


def _name_of(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115  no Path
