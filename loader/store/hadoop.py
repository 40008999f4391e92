"""A root on any other Hadoop filesystem, by way of the driver's JVM and with its configuration.

How a file is created under a name that nobody else gets differs (loader/store/creation.py); all
else is what every filesystem can do. Nothing relies on what `FileSystem.rename` answers: it says
False for half a dozen reasons, and True when it has moved a file into a folder of that name.
"""

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from loader.errors import StoreError
from loader.store.creation import Creation, Taken, check_scheme, creation_for
from loader.store.store import CREATING, MOST_BYTES, Entry, check_path

_MISSING: Final = "java.io.FileNotFoundException"
_PRINTED: Final = re.compile(
    r"Status\{path=(?P<path>[^;{}]*); isDirectory=(?P<is_folder>true|false);"
    r"(?: length=(?P<size>\d+);)?[^{}]*? modification_time=(?P<modified>\d+);"
)
_MOST_KNOWN: Final = 100_000  # folders that are remembered to be there


class HadoopStore:
    """A Store; see there."""

    def __init__(self, root: str, gateway: Any, configuration: Any) -> None:
        """`gateway` is py4j's, `configuration` the JVM's Hadoop configuration."""
        self._jvm = gateway.jvm
        self.root = root.rstrip("/")
        with _as_store_error("open", self.root):
            path = self._jvm.org.apache.hadoop.fs.Path(self.root)
            check_scheme(path.toUri().getScheme(), self.root)
            self._files = path.getFileSystem(configuration)
            self._prefix = self._files.makeQualified(path).toString() + "/"
            self._creation: Creation = creation_for(gateway, self._files, path, configuration)
        self._iterators = self._jvm.org.apache.hadoop.util.functional.RemoteIterators
        self._folders: set[str] = set()

    def uri(self, path: str) -> str:
        return f"{self.root}/{check_path(path)}"

    def prove(self) -> None:
        path = f"{CREATING}/{uuid.uuid4().hex}"
        with _as_store_error("create files in", self.root):
            self._creation.prove()
        twice = not self.create(path, b"1") or self.create(path, b"2")
        self.delete(path)
        if twice:
            raise StoreError(f"{self.root}: a file was created twice under one name")

    def create(self, path: str, data: bytes) -> bool:
        target = self._at(path)
        with _as_store_error("create", path):
            self._make_folder(path)
            temporary = self._temporary()
            try:
                self._creation.create(temporary, target, data)
            except Taken:
                return self.read(path) == data
            except (Py4JError, CapturedException):
                # The answer may be lost, and the file be there.
                if self.read(path) != data:
                    raise
        return True

    def replace(self, path: str, data: bytes) -> None:
        with _as_store_error("write", path):
            self._make_folder(path)
            self._creation.replace(self._temporary(), self._at(path), data)

    def read(self, path: str, limit: int = MOST_BYTES) -> bytes | None:
        with _as_store_error("read", path):
            try:
                status = self._files.getFileStatus(self._at(path))
                if status.isDirectory():
                    raise StoreError(f"{self.uri(path)} is a folder")
                size = status.getLen()
                if size > limit:
                    raise StoreError(f"{self.uri(path)} is longer than {limit:,} bytes")
                stream = self._files.open(self._at(path))
            except Py4JJavaError as error:
                if _java_class(error) == _MISSING:
                    return None
                raise
            try:
                return bytes(stream.readNBytes(size))
            finally:
                stream.close()

    def list(self, path: str) -> Sequence[Entry]:
        with _as_store_error("list", path):
            return self._listed(lambda: self._files.listStatusIterator(self._at(path)))

    def list_recursively(self, path: str) -> Sequence[Entry]:
        with _as_store_error("list", path):
            return self._listed(lambda: self._files.listFiles(self._at(path), True))

    def size(self, path: str) -> int | None:
        with _as_store_error("look at", path):
            try:
                return int(self._files.getFileStatus(self._at(path)).getLen())
            except Py4JJavaError as error:
                if _java_class(error) == _MISSING:
                    return None
                raise

    def checksum(self, path: str) -> str:
        """As the filesystem keeps it: HDFS has it of its blocks, and reads none of them for it."""
        with _as_store_error("look at", path):
            try:
                found = self._files.getFileChecksum(self._at(path))
            except Py4JJavaError as error:
                if _java_class(error) == _MISSING:
                    return ""
                raise
            return "" if found is None else str(found.toString())

    def rename(self, source: str, target: str) -> bool:
        with _as_store_error("rename", source):
            try:
                self._make_folder(target)
                self._creation.move(self._at(source), self._at(target))
                return True
            except Py4JJavaError as error:
                if _java_class(error) != _MISSING:
                    raise
            if self.size(source) is None:
                return False
            # Somebody has taken the folder away since it was made.
            self._folders.clear()
            self._make_folder(target)
            self._creation.move(self._at(source), self._at(target))
            return True

    def sync(self, paths: Iterable[str]) -> None:
        """Nothing that could be done from here: S3 has what it took, HDFS has sent it to several
        machines, and what is closed reaches their disks if `dfs.datanode.synconclose` says so."""

    def delete(self, path: str) -> None:
        with _as_store_error("delete", path):
            self._files.delete(self._at(path), True)
            self._folders.clear()

    def _at(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.uri(path))

    def _temporary(self) -> Any:
        self._make_folder(f"{CREATING}/file")
        return self._at(f"{CREATING}/{uuid.uuid4().hex}")

    def _make_folder(self, path: str) -> None:
        """The one that `path` lies in."""
        folder = path.rpartition("/")[0]
        if not folder or folder in self._folders:
            return
        self._files.mkdirs(self._at(folder))
        if len(self._folders) >= _MOST_KNOWN:
            self._folders.clear()
        self._folders.add(folder)

    def _listed(self, iterator: Callable[[], Any]) -> Sequence[Entry]:
        """By path. Nothing if there is no such folder."""
        try:
            found = self._iterators.toList(iterator())
            entries = self._read_entries(found.toString())
            if len(entries) != found.size():
                entries = [self._entry(each) for each in found]
        except Py4JJavaError as error:
            if _java_class(error) == _MISSING:
                return []
            raise
        return sorted(entries, key=lambda each: each.path)

    def _read_entries(self, listing: str) -> Sequence[Entry]:
        """As Java prints them: one call, where asking one by one is half a millisecond each."""
        return [
            Entry(
                found["path"].removeprefix(self._prefix),
                found["is_folder"] == "true",
                int(found["size"] or 0),
                int(found["modified"]),
            )
            for found in _PRINTED.finditer(listing)
        ]

    def _entry(self, status: Any) -> Entry:
        return Entry(
            status.getPath().toString().removeprefix(self._prefix),
            status.isDirectory(),
            status.getLen(),
            status.getModificationTime(),
        )


def _java_class(error: Py4JJavaError) -> str:
    return str(error.java_exception.getClass().getName())


@contextmanager
def _as_store_error(what: str, path: str) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        raise StoreError(
            f"cannot {what} {path}: {_line(error.java_exception.toString())}"
        ) from error
    except (Py4JError, CapturedException) as error:
        raise StoreError(f"cannot {what} {path}: {_line(str(error))}") from error


def _line(text: str) -> str:
    """What a person needs of a Java exception: its first line, without the package's name."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
    kind, colon, words = first.partition(": ")
    return f"{kind.rpartition('.')[2]}{colon}{words}"[:500]
