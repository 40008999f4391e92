"""How a file comes to be whole at once, under a name that nobody else gets: by filesystem.

    hdfs   a temporary file, flushed to disks, renamed without overwriting: one step of the NameNode
    s3a    written under its name, with the condition that there is none yet, checked at its end
    other  not known, so refused: what is not atomic looks as if it were until two loaders meet

The same rules as in Delta Lake's log stores. `FileSystem.create(overwrite=False)` is none of them:
on HDFS it is exclusive, but shows the file while it is being written.
"""

from typing import Any, Final, Protocol

from py4j.protocol import Py4JJavaError

from loader.errors import StoreError

_TAKEN: Final = frozenset(
    {
        "org.apache.hadoop.fs.FileAlreadyExistsException",
        "java.nio.file.FileAlreadyExistsException",
        "org.apache.hadoop.fs.s3a.RemoteFileChangedException",
    }
)
_RENAMING: Final = frozenset({"hdfs", "viewfs"})
_CONDITIONAL: Final = frozenset({"s3a"})
_IF_ABSENT: Final = "fs.option.create.conditional.overwrite"


class Taken(Exception):
    """There is a file of this name."""


class Creation(Protocol):
    """Paths are Hadoop's. Folders are there. Raises what py4j raises."""

    def prove(self) -> None:
        """Raises StoreError where it is plain that files cannot be created atomically."""

    def create(self, temporary: Any, target: Any, data: bytes) -> None:
        """Raises Taken."""

    def replace(self, temporary: Any, target: Any, data: bytes) -> None:
        """Whether or not it is there."""

    def move(self, source: Any, target: Any) -> None:
        """To a name that no other file ever has. Raises Java's FileNotFoundException if the source
        is gone."""


def check_scheme(scheme: str, root: str) -> None:
    if scheme not in {*_RENAMING, *_CONDITIONAL}:
        raise StoreError(
            f"{root}: how to create a file atomically on {scheme}:// is not known, so two loaders"
            " could commit the same run; roots may be on hdfs://, s3a:// and file://"
        )


def creation_for(gateway: Any, files: Any, root: Any, configuration: Any) -> Creation:
    if root.toUri().getScheme() in _RENAMING:
        return RenamedCreation(gateway, files, root, configuration)
    return ConditionalCreation(files, root)


class RenamedCreation:
    """Where a rename is one step, and refuses to overwrite."""

    def __init__(self, gateway: Any, files: Any, root: Any, configuration: Any) -> None:
        self._files = files
        hadoop = gateway.jvm.org.apache.hadoop.fs
        # One for all: each opens a client of its own.
        self._context = hadoop.FileContext.getFileContext(root.toUri(), configuration)
        rename = hadoop.Options.Rename
        self._exclusive = gateway.new_array(rename, 1)
        self._exclusive[0] = rename.NONE
        self._over = gateway.new_array(rename, 1)
        self._over[0] = rename.OVERWRITE

    def prove(self) -> None:
        return

    def create(self, temporary: Any, target: Any, data: bytes) -> None:
        self._write(temporary, data)
        try:
            self._context.rename(temporary, target, self._exclusive)
        except Py4JJavaError as error:
            self._files.delete(temporary, False)
            if _is_taken(error):
                raise Taken from error
            raise

    def replace(self, temporary: Any, target: Any, data: bytes) -> None:
        self._write(temporary, data)
        self.move(temporary, target)

    def move(self, source: Any, target: Any) -> None:
        self._context.rename(source, target, self._over)

    def _write(self, path: Any, data: bytes) -> None:
        stream = self._files.create(path, False)
        try:
            stream.write(bytearray(data))
            stream.hsync()
        finally:
            stream.close()


class ConditionalCreation:
    """Where what is written appears when it is closed, and may be refused at that moment."""

    def __init__(self, files: Any, root: Any) -> None:
        self._files = files
        self._root = root

    def prove(self) -> None:
        if not self._files.hasPathCapability(self._root, _IF_ABSENT):
            raise StoreError(
                f"{self._root.toString()}: S3 must be written to with conditional creation"
                " (Hadoop 3.4.2 or later, fs.s3a.create.conditional.enabled), or two loaders"
                " could commit the same run"
            )

    def create(self, temporary: Any, target: Any, data: bytes) -> None:
        """Nothing is temporary here."""
        try:
            builder = self._files.createFile(target).overwrite(False)
            self._finish(builder.must(_IF_ABSENT, True).build(), data)
        except Py4JJavaError as error:
            if _is_taken(error):
                raise Taken from error
            raise

    def replace(self, temporary: Any, target: Any, data: bytes) -> None:
        self._finish(self._files.create(target, True), data)

    def move(self, source: Any, target: Any) -> None:
        """A copy, then the original is deleted: cut short, or done by two, it can be repeated.

        Copies appear whole, and no other file is ever called `target`: what is there is the copy.
        """
        size = self._files.getFileStatus(source).getLen()
        if not self._is_there(target, size):
            if self._renamed(source, target):
                return
            self._files.getFileStatus(source)  # or else somebody has been faster
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
        found = self._files.getFileStatus(target).getLen()
        if found != size:
            raise StoreError(
                f"{target.toString()} is there already, of {found:,} bytes, not {size:,}"
            )
        return True

    def _finish(self, stream: Any, data: bytes) -> None:
        try:
            stream.write(bytearray(data))
        except BaseException:
            stream.abort()  # closing it would show what is there
            raise
        stream.close()


def _is_taken(error: Py4JJavaError) -> bool:
    return str(error.java_exception.getClass().getName()) in _TAKEN
