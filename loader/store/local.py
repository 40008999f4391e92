"""A root on a mounted filesystem: `file:///…`. Needs no JVM.

Hadoop's own local filesystem cannot create a file exclusively: it checks and then renames, so of
eight concurrent writers three may be told that they were first. Hard links are exclusive, and the
only such operation on NFS. The `.crc` files of Hadoop's filesystem are neither written nor read.
"""

import errno
import hashlib
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from crc32c import crc32c

from ground.files.durable_files import sync_directory, sync_file
from ground.files.file_system import write_error_words
from loader.errors import StoreError
from loader.store.parallel import in_parallel
from loader.store.store import CREATING, MOST_BYTES, Entry, check_path
from loader.values.tables import Digest

_SYNCING: Final = 8  # files at a time
_AT_ONCE: Final = 1024 * 1024  # bytes per read
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV)


class LocalStore:
    """A root on a mounted filesystem; implements Store."""

    stores_checksums = False

    def __init__(self, root: str) -> None:
        """`root` is a URI as Hadoop reads it: without percent-decoding."""
        self._folder = _folder_of(root)
        self.root = f"file://{self._folder}"

    def uri(self, path: str) -> str:
        return f"{self.root}/{check_path(path)}"

    def prove(self) -> Sequence[Entry]:
        path = f"{CREATING}/{uuid.uuid4().hex}"
        is_created_twice = not self.create(path, b"1") or self.create(path, b"2")
        entries = self.list(CREATING)
        self.delete(path)
        if is_created_twice:
            raise StoreError(f"{self.root}: this filesystem let the same file be created twice")
        return entries

    def create(self, path: str, data: bytes) -> bool:
        target = self._at(path)
        with _as_store_error("create", path), self._written(data) as temporary_path:
            _make_folder(target.parent)
            try:
                os.link(temporary_path, target)
            except FileExistsError:
                return target.read_bytes() == data
            except OSError as error:
                # A network filesystem's response may be lost although the file exists.
                if temporary_path.stat().st_nlink == 1:
                    if error.errno in _NO_LINKS:
                        raise StoreError(_no_links(self.root)) from error
                    raise
            _sync(target.parent)
        return True

    def replace(self, path: str, data: bytes) -> None:
        target = self._at(path)
        with _as_store_error("write", path), self._written(data) as temporary_path:
            _make_folder(target.parent)
            temporary_path.replace(target)
            _sync(target.parent)

    def write(self, path: str, data: bytes) -> None:
        target = self._at(path)
        with _as_store_error("write", path):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)

    def read(self, path: str, limit: int = MOST_BYTES) -> bytes | None:
        with _as_store_error("read", path):
            try:
                with self._at(path).open("rb") as file:
                    if os.fstat(file.fileno()).st_size > limit:
                        raise StoreError(f"{self.uri(path)} is longer than {limit:,} bytes")
                    return file.read()
            except FileNotFoundError:
                return None

    def list(self, path: str) -> Sequence[Entry]:
        with _as_store_error("list", path):
            try:
                scanned_entries = sorted(os.scandir(self._at(path)), key=lambda item: item.name)
            except FileNotFoundError:
                return []
            return [entry for item in scanned_entries if (entry := _entry(path, item)) is not None]

    def list_recursively(self, path: str) -> Sequence[Entry]:
        files: list[Entry] = []
        for entry in self.list(path):
            files.extend(self.list_recursively(entry.path) if entry.is_folder else [entry])
        return files

    def size(self, path: str) -> int | None:
        with _as_store_error("look at", path):
            try:
                return self._at(path).stat().st_size
            except FileNotFoundError:
                return None

    def checksum(self, path: str) -> str:
        with _as_store_error("read", path):
            try:
                with self._at(path).open("rb") as file:
                    crc, buffer = 0, memoryview(bytearray(_AT_ONCE))
                    while size := file.readinto(buffer):
                        crc = crc32c(buffer[:size], crc)
            except FileNotFoundError:
                return ""
        return f"CRC32C:{crc:08x}"

    def digest(self, path: str) -> Digest:
        with _as_store_error("read", path), self._at(path).open("rb") as file:
            return Digest(hashlib.file_digest(file, "sha256").digest())

    def rename(self, source: str, target: str) -> bool:
        source_path, target_path = self._at(source), self._at(target)
        with _as_store_error("rename", source):
            if not source_path.exists():
                return False
            _make_folder(target_path.parent)
            try:
                source_path.replace(target_path)
            except FileNotFoundError:
                return False
            return True

    def sync(self, paths: Iterable[str]) -> None:
        targets = {self._at(path) for path in paths}
        parents = {
            folder
            for target in targets
            for folder in target.parents
            if folder.is_relative_to(self._folder)
        }
        with _as_store_error("sync", "files"):
            in_parallel(_sync, sorted(targets | parents), threads=_SYNCING)

    def delete(self, path: str) -> None:
        target = self._at(path)
        with _as_store_error("delete", path):
            while os.path.lexists(target):
                # Another process may be deleting the same files.
                with suppress(FileNotFoundError):
                    _delete(target)

    def delete_files(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

    def _at(self, path: str) -> Path:
        return self._folder / check_path(path)

    @contextmanager
    def _written(self, data: bytes) -> Iterator[Path]:
        """A temporary file with this content."""
        temporary_path = self._at(f"{CREATING}/{uuid.uuid4().hex}")
        _make_folder(temporary_path.parent)
        try:
            with temporary_path.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield temporary_path
        finally:
            temporary_path.unlink(missing_ok=True)


def _folder_of(root: str) -> Path:
    scheme, _, rest = root.partition(":")
    if scheme != "file":
        raise StoreError(f"{root} is not on a local filesystem")
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        rest = slash + path
        if host:
            raise StoreError(f"{root}: a local path needs three slashes: file:///{host}…")
    if not rest.startswith("/"):
        raise StoreError(f"{root}: the path must begin with a slash")
    return Path("/", os.path.normpath(rest).lstrip("/"))


def _entry(folder: str, scanned: os.DirEntry[str]) -> Entry | None:
    try:
        stat = scanned.stat()
    except FileNotFoundError:
        return None  # gone meanwhile
    path = f"{folder}/{scanned.name}"
    return Entry(path, scanned.is_dir(), stat.st_size, stat.st_mtime_ns // 1_000_000)


def _delete(target: Path) -> None:
    try:
        shutil.rmtree(target)
    except NotADirectoryError:
        target.unlink(missing_ok=True)


def _make_folder(folder: Path) -> None:
    """Creates folders so that they survive a power loss."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync(folder.parent)


def _sync(path: Path) -> None:
    """Syncs a file's content, or a folder's names, if it exists."""
    with suppress(FileNotFoundError):
        (sync_directory if path.is_dir() else sync_file)(path)


def _no_links(root: str) -> str:
    return (
        f"{root}: this filesystem has no hard links, and without them two loaders could commit the"
        " same run; use another filesystem"
    )


@contextmanager
def _as_store_error(what: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = write_error_words(error, Path(error.filename or path))
        raise StoreError(f"cannot {what} {path}: {reason}") from error
