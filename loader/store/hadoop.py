"""A root on a Hadoop filesystem other than a local one, through the driver's JVM and its
configuration.

Atomic creation differs by filesystem (filesystems.py). Everything else works on all of them. The
result of `FileSystem.rename` is never used: it is False for half a dozen reasons, and True if a
file was moved into a folder of that name.
"""

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors.exceptions.captured import CapturedException

from loader.errors import StoreError
from loader.store.filesystems import RENAMING, check_scheme
from loader.store.hadoop_errors import JVM_ENDED, store_error
from loader.store.store import CREATING, MOST_BYTES, Entry, check_path
from loader.values.tables import Digest

_TAKEN: Final = frozenset(
    {
        "org.apache.hadoop.fs.FileAlreadyExistsException",
        "java.nio.file.FileAlreadyExistsException",
        "org.apache.hadoop.fs.s3a.RemoteFileChangedException",
    }
)
_IF_ABSENT: Final = "fs.option.create.conditional.overwrite"
# Settings of S3A, if they are not set. Without these flags it looks for folders and files around
# each file or folder that it creates, with a LIST or HEAD each. The condition on creation does not
# depend on that: S3 checks it.
OF_S3A: Final = {"fs.s3a.performance.flags": "create,mkdir"}
_MISSING: Final = "java.io.FileNotFoundException"
# How its messages begin if there is no file: on HDFS no folder of that name either; on S3A, which
# does not look for one, there may be.
_NO_ENTRY: Final = ("File does not exist: ", "No such file or directory: ")
_PRINTED: Final = re.compile(
    r"Status\{path=(?P<path>[^;{}]*); isDirectory=(?P<is_folder>true|false);"
    r"(?: length=(?P<size>\d+);)?[^{}]*? modification_time=(?P<modified>\d+);"
)
_MOST_KNOWN: Final = 100_000  # existing folders that are remembered
_LISTS_TOGETHER: Final = "fs.capability.batch.listing"
MOST_TOGETHER: Final = 100  # folders that one call lists: a NameNode's limit by default
_AT_ONCE: Final = 1024 * 1024  # bytes per read


class Taken(Exception):
    """The error that a file of this name exists."""


class Creation(Protocol):
    """Creates files. Paths are Hadoop's; folders of targets exist already, if they are needed,
    unless they are only written. Raises py4j's exceptions."""

    needs_folders: bool  # whether a file can only be renamed into a folder that exists

    def prove(self) -> None:
        """Checks that files can be created atomically, as far as this can be determined. Raises
        StoreError."""

    def create(self, temporary: Any, target: Any, data: bytes) -> None:
        """Creates a file atomically. Raises Taken if the target exists."""

    def replace(self, temporary: Any, target: Any, data: bytes) -> None:
        """Writes the file, whether or not it exists."""

    def write(self, target: Any, data: bytes) -> None:
        """Writes a file that may be visible before it is complete."""

    def move(self, source: Any, target: Any) -> None:
        """Moves a file to a unique name. Raises Java's FileNotFoundException if the source does not
        exist."""


def creation_for(gateway: Any, files: Any, root: Any, configuration: Any) -> Creation:
    if root.toUri().getScheme() in RENAMING:
        return RenamedCreation(gateway, files, root, configuration)
    return ConditionalCreation(files, root)


class RenamedCreation:
    """Creates files on filesystems where a rename is atomic and refuses to overwrite."""

    needs_folders = True

    def __init__(self, gateway: Any, files: Any, root: Any, configuration: Any) -> None:
        self._files = files
        hadoop = gateway.jvm.org.apache.hadoop.fs
        # One for all operations, since each context opens a client of its own.
        self._context = hadoop.FileContext.getFileContext(root.toUri(), configuration)
        rename = hadoop.Options.Rename
        self._exclusive = gateway.new_array(rename, 1)
        self._exclusive[0] = rename.NONE
        self._over = gateway.new_array(rename, 1)
        self._over[0] = rename.OVERWRITE

    def prove(self) -> None:
        return

    def create(self, temporary: Any, target: Any, data: bytes) -> None:
        if not data:
            self._create_empty(target)
            return
        self.write(temporary, data)
        self.publish(temporary, target)

    def publish(self, temporary: Any, target: Any) -> None:
        """Gives a complete file its name. Raises Taken, and deletes the file, if another has it."""
        try:
            self._context.rename(temporary, target, self._exclusive)
        except Py4JJavaError as error:
            self._files.delete(temporary, False)
            if _is_taken(error):
                raise Taken from error
            raise

    def _create_empty(self, target: Any) -> None:
        """Creates an empty file, which is complete from the beginning."""
        try:
            self._files.create(target, False).close()
        except Py4JJavaError as error:
            if _is_taken(error):
                raise Taken from error
            raise

    def replace(self, temporary: Any, target: Any, data: bytes) -> None:
        self.write(temporary, data)
        self.move(temporary, target)

    def move(self, source: Any, target: Any) -> None:
        self._context.rename(source, target, self._over)

    def write(self, target: Any, data: bytes) -> None:
        stream = self._files.create(target, False)
        try:
            stream.write(bytearray(data))
            stream.hsync()
        finally:
            stream.close()


class ConditionalCreation:
    """Creates files on filesystems where a file appears only when it is closed, and where creation
    can be made to fail if the file exists."""

    needs_folders = False

    def __init__(self, files: Any, root: Any) -> None:
        self._files = files
        self._root = root

    def prove(self) -> None:
        if not self._files.hasPathCapability(self._root, _IF_ABSENT):
            raise StoreError(
                f"{self._root.toString()}: S3 requires conditional creation (Hadoop 3.4.2 or later,"
                " fs.s3a.create.conditional.enabled); without it, two loaders could commit the"
                " same run"
            )

    def create(self, temporary: Any, target: Any, data: bytes) -> None:
        """Creates a file atomically, without a temporary file."""
        try:
            builder = self._files.createFile(target).overwrite(False)
            self._finish(builder.must(_IF_ABSENT, True).build(), data)
        except Py4JJavaError as error:
            if _is_taken(error):
                raise Taken from error
            raise

    def replace(self, temporary: Any, target: Any, data: bytes) -> None:
        self.write(target, data)

    def write(self, target: Any, data: bytes) -> None:
        self._finish(self._files.create(target, True), data)

    def move(self, source: Any, target: Any) -> None:
        """Copies the file, then deletes the original; can be repeated after an interruption, or by
        two loaders.

        Copies appear complete, and no other file is ever named `target`: a file there is the copy.
        """
        if self._renamed(source, target):
            return
        size = self._files.getFileStatus(source).getLen()  # raises if another loader was faster
        if not self._is_there(target, size):
            raise StoreError(f"cannot rename {source.toString()} to {target.toString()}")
        self._files.delete(source, False)

    def _renamed(self, source: Any, target: Any) -> bool:
        try:
            return bool(self._files.rename(source, target))
        except Py4JJavaError as error:
            if _is_taken(error):
                return False
            raise

    def _is_there(self, target: Any, size: int) -> bool:
        if not self._files.exists(target):
            return False
        actual_size = self._files.getFileStatus(target).getLen()
        if actual_size != size:
            raise StoreError(
                f"{target.toString()} already exists with {actual_size:,} bytes, not {size:,}"
            )
        return True

    def _finish(self, stream: Any, data: bytes) -> None:
        try:
            stream.write(bytearray(data))
        except BaseException:
            stream.abort()  # closing it would publish an incomplete file
            raise
        stream.close()


def _is_taken(error: Py4JJavaError) -> bool:
    return str(error.java_exception.getClass().getName()) in _TAKEN


class HadoopStore:
    """A root on a Hadoop filesystem; implements Store."""

    stores_checksums = True

    def __init__(
        self, root: str, gateway: Any, configuration: Any, *, most_together: int = MOST_TOGETHER
    ) -> None:
        """`gateway` is py4j's, `configuration` the JVM's Hadoop configuration."""
        self._most_together = most_together
        self._jvm = gateway.jvm
        # Looked up once: py4j asks the JVM about each part of a name, each time it is used.
        self._path_class = self._jvm.org.apache.hadoop.fs.Path
        self._list_class = self._jvm.java.util.ArrayList
        self.root = root.rstrip("/")
        with as_store_error("open", self.root):
            path = self._path_class(self.root)
            check_scheme(path.toUri().getScheme(), self.root)
            for key, value in OF_S3A.items():
                configuration.setIfUnset(key, value)
            self._files = path.getFileSystem(configuration)
            self._root = self._files.makeQualified(path)
            self._prefix = self._root.toString() + "/"
            self._creation: Creation = creation_for(gateway, self._files, path, configuration)
            self._lists_together = bool(self._files.hasPathCapability(path, _LISTS_TOGETHER))
        self._iterators = self._jvm.org.apache.hadoop.util.functional.RemoteIterators
        self._folders: set[str] = set()

    def uri(self, path: str) -> str:
        return f"{self.root}/{check_path(path)}"

    def prove(self) -> Sequence[Entry]:
        path = f"{CREATING}/{uuid.uuid4().hex}"
        with as_store_error("create files in", self.root):
            self._creation.prove()
        is_created_twice = not self.create(path, b"1") or self._is_created_again(path)
        entries = self.list(CREATING)
        self.delete_files([path])
        if is_created_twice:
            raise StoreError(f"{self.root}: this filesystem let the same file be created twice")
        return entries

    def _is_created_again(self, path: str) -> bool:
        """Whether a file can be created although it exists."""
        with as_store_error("create", path):
            try:
                self._creation.create(self._temporary(), self._at(path), b"2")
            except Taken:
                return False
        return True

    def create(self, path: str, data: bytes) -> bool:
        target = self._at(path)
        with as_store_error("create", path):
            self._make_folder(path)
            temporary_path = self._temporary()
            try:
                self._creation.create(temporary_path, target, data)
            except Taken:
                return self.read(path) == data
            except (Py4JError, CapturedException):
                # The response may be lost although the file exists.
                if self.read(path) != data:
                    raise
        return True

    def replace(self, path: str, data: bytes) -> None:
        with as_store_error("write", path):
            self._make_folder(path)
            self._creation.replace(self._temporary(), self._at(path), data)

    def write(self, path: str, data: bytes) -> None:
        with as_store_error("write", path):
            self._creation.write(self._at(path), data)

    def read(self, path: str, limit: int = MOST_BYTES) -> bytes | None:
        with as_store_error("read", path):
            try:
                stream = self._files.open(self._at(path))
            except Py4JJavaError as error:
                if _java_class(error) != _MISSING:
                    raise
                message = str(error.java_exception.getMessage())
                if message.startswith(_NO_ENTRY) or self.size(path) is None:
                    return None
                raise StoreError(f"{self.uri(path)} is a folder") from None
            try:
                data = bytes(stream.readNBytes(limit + 1))
            finally:
                stream.close()
            if len(data) > limit:
                raise StoreError(f"{self.uri(path)} is longer than {limit:,} bytes")
            return data

    def list(self, path: str) -> Sequence[Entry]:
        with as_store_error("list", path):
            return self._listed(lambda: self._files.listStatusIterator(self._at(path)))

    def list_recursively(self, path: str) -> Sequence[Entry]:
        with as_store_error("list", path):
            if self._lists_together:
                try:
                    return self._listed_together(path)
                except Py4JError:  # a NameNode before Hadoop 3.3, a router, or viewfs
                    self._lists_together = False
            return self._listed(lambda: self._files.listFiles(self._at(path), True))

    def size(self, path: str) -> int | None:
        with as_store_error("look at", path):
            try:
                return int(self._files.getFileStatus(self._at(path)).getLen())
            except Py4JJavaError as error:
                if _java_class(error) == _MISSING:
                    return None
                raise

    def checksum(self, path: str) -> str:
        """The filesystem's checksum. HDFS computes it from the checksums of blocks, without reading
        the blocks."""
        with as_store_error("look at", path):
            try:
                checksum = self._files.getFileChecksum(self._at(path))
            except Py4JJavaError as error:
                if _java_class(error) == _MISSING:
                    return ""
                raise
            return "" if checksum is None else str(checksum.toString())

    def digest(self, path: str) -> Digest:
        """Computed by the JVM, so that the content is not copied to Python."""
        with as_store_error("read", path):
            sha256 = self._jvm.java.security.MessageDigest.getInstance("SHA-256")
            stream = self._jvm.java.security.DigestInputStream(
                self._files.open(self._at(path)), sha256
            )
            nowhere = self._jvm.java.io.OutputStream.nullOutputStream()
            self._jvm.org.apache.hadoop.io.IOUtils.copyBytes(stream, nowhere, _AT_ONCE, True)
            return Digest(bytes(sha256.digest()))

    def rename(self, source: str, target: str) -> bool:
        with as_store_error("rename", source):
            try:
                self._make_folder(target)
                self._creation.move(self._at(source), self._at(target))
                return True
            except Py4JJavaError as error:
                if _java_class(error) != _MISSING:
                    raise
            if self.size(source) is None:
                return False
            # The folder has been deleted since it was created.
            self._folders.clear()
            self._make_folder(target)
            self._creation.move(self._at(source), self._at(target))
            return True

    def sync(self, paths: Iterable[str]) -> None:
        """Does nothing: S3 stores what it accepts; HDFS has sent the data to several machines,
        which write closed files to disk if `dfs.datanode.synconclose` is set."""

    def delete(self, path: str) -> None:
        with as_store_error("delete", path):
            self._files.delete(self._at(path), True)
            for folder in tuple(self._folders):
                if f"{folder}/".startswith(f"{path}/"):
                    self._folders.discard(folder)

    def delete_files(self, paths: Sequence[str]) -> None:
        if self._creation.needs_folders:
            for path in paths:
                with as_store_error("delete", path):
                    self._files.delete(self._at(path), False)
        elif paths:
            with as_store_error("delete", paths[0]):
                self._delete_objects(paths)

    def _delete_objects(self, paths: Sequence[str]) -> None:
        """Deletes many with each request, and does not look for folders around them."""
        bulk = self._files.createBulkDelete(self._root)
        try:
            at_once = bulk.pageSize()
            for start in range(0, len(paths), at_once):
                page = self._list_class()
                for path in paths[start : start + at_once]:
                    page.add(self._at(path))
                for failure in bulk.bulkDelete(page):
                    uri = failure.getKey().toString()
                    raise StoreError(f"cannot delete {uri}: {failure.getValue()}")
        finally:
            bulk.close()

    def _at(self, path: str) -> Any:
        return self._path_class(self.uri(path))

    def _temporary(self) -> Any:
        return self._at(f"{CREATING}/{uuid.uuid4().hex}")

    def _make_folder(self, path: str) -> None:
        if not self._creation.needs_folders:
            return
        folder = path.rpartition("/")[0]
        if not folder or folder in self._folders:
            return
        self._files.mkdirs(self._at(folder))
        if len(self._folders) >= _MOST_KNOWN:
            self._folders.clear()
        self._folders.add(folder)

    def _listed(self, iterator: Callable[[], Any]) -> Sequence[Entry]:
        """The entries by path; none if the folder does not exist."""
        try:
            entries = self._entries(self._iterators.toList(iterator()))
        except Py4JJavaError as error:
            if _java_class(error) == _MISSING:
                return []
            raise
        return sorted(entries, key=lambda entry: entry.path)

    def _listed_together(self, path: str) -> Sequence[Entry]:
        """The files below a folder by path, with one call for all folders of a level, where
        `listFiles` makes one for each folder."""
        files: list[Entry] = []
        folders = [path]
        while folders:
            entries = [
                entry
                for start in range(0, len(folders), self._most_together)
                for entry in self._entries_in(folders[start : start + self._most_together])
            ]
            files += [entry for entry in entries if not entry.is_folder]
            folders = [entry.path for entry in entries if entry.is_folder]
        return sorted(files, key=lambda entry: entry.path)

    def _entries_in(self, folders: Iterable[str]) -> Sequence[Entry]:
        """The entries of folders; none of those that do not exist."""
        paths, statuses = self._list_class(), self._list_class()
        for folder in folders:
            paths.add(self._at(folder))
        listings = self._files.batchedListStatusIterator(paths)
        while listings.hasNext():
            listing = listings.next()
            try:
                statuses.addAll(listing.get())
            except Py4JJavaError as error:
                if _java_class(error) != _MISSING:
                    raise
        return self._entries(statuses)

    def _entries(self, statuses: Any) -> Sequence[Entry]:
        """Parses Java's printed form: one call, where a call for each entry costs half a
        millisecond."""
        entries = self._parsed(statuses.toString())
        if len(entries) != statuses.size():
            return [self._entry(status) for status in statuses]
        return entries

    def _parsed(self, listing: str) -> Sequence[Entry]:
        return [
            Entry(
                match["path"].removeprefix(self._prefix),
                match["is_folder"] == "true",
                int(match["size"] or 0),
                int(match["modified"]),
            )
            for match in _PRINTED.finditer(listing)
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
def as_store_error(what: str, path: str) -> Iterator[None]:
    """Converts Java's exceptions to a StoreError with a one-line message."""
    try:
        yield
    except Py4JJavaError as error:
        raise store_error(f"cannot {what} {path}", error.java_exception.toString()) from error
    except (Py4JNetworkError, ConnectionError) as error:
        raise StoreError(f"cannot {what} {path}: {JVM_ENDED}") from error
    except (Py4JError, CapturedException) as error:
        raise store_error(f"cannot {what} {path}", str(error)) from error
