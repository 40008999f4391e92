"""Keeps Spark's jars and packed environments in a folder on HDFS, from which YARN fetches them, so
that a load does not upload half a gigabyte.

A file's name identifies its content, as that of a pack does: Spark's version, and a digest of the
jars. So a file is never changed, and a load with another Spark or environment does not find its
file, and uploads what it needs.

A file is written under a temporary name, and renamed when it is complete, unless the name exists by
then: applications that use a file fail if another takes its place. A crash leaves a temporary file,
which is removed by staging a day later. Files of former versions stay.

All users may read the files, so that YARN keeps one copy on each node for all of them.
"""

import hashlib
import os
import tempfile
import time
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pyspark

from loader.errors import EnvironmentFailed
from loader.spark.packing import (
    ABANDONED_SECONDS,
    FORMAT,
    PREFIX,
    PackedEnvironment,
    PackedFile,
    write_archive,
)
from loader.store.hadoop import RenamedCreation, Taken, as_store_error

SPARK_PREFIX: Final = "spark-"
_TAIL_BYTES: Final = 65_536
_READABLE: Final = "644"


class StagedFile(msgspec.Struct, frozen=True):
    """A file in the folder."""

    uri: str
    bytes: int
    is_new: bool  # uploaded just now


class StagingFolder:
    """The folder, through the driver's JVM. Methods raise LoaderError."""

    def __init__(self, folder: str, gateway: Any, configuration: Any) -> None:
        """`gateway` is py4j's, `configuration` Hadoop's."""
        self._hadoop = gateway.jvm.org.apache.hadoop.fs
        with as_store_error("open", folder):
            path = self._hadoop.Path(folder)
            self._files = path.getFileSystem(configuration)
            self._folder = self._files.makeQualified(path)
            self._creation = RenamedCreation(gateway, self._files, self._folder, configuration)

    def find(self, name: str) -> StagedFile | None:
        path = self._at(name)
        with as_store_error("look at", path.toString()):
            if not self._files.exists(path):
                return None
            return StagedFile(path.toString(), self._files.getFileStatus(path).getLen(), False)

    def stage_spark(self, jars: Path) -> StagedFile:
        """Copies Spark's jars, as the archive that `spark.yarn.archive` expects, unless they are
        there."""
        if (staged := self.find(archive_name(jars))) is not None:
            return staged
        try:
            with tempfile.TemporaryDirectory() as scratch:
                archive = Path(scratch, archive_name(jars))
                files = [PackedFile(jar.name, jar, "") for jar in _jars_in(jars)]
                write_archive(files, archive, compression=zipfile.ZIP_STORED)
                return self._put(archive)
        except OSError as error:
            raise EnvironmentFailed(f"cannot pack Spark's jars: {error}") from error

    def stage_pack(self, packed: PackedEnvironment) -> StagedFile:
        """Copies the packed environment unless it is there."""
        return self.find(packed.path.name) or self._put(packed.path)

    def _put(self, source: Path) -> StagedFile:
        target, temporary = self._at(source.name), self._at(f".{source.name}.{uuid.uuid4().hex}")
        with as_store_error("create", target.toString()):
            self._files.mkdirs(self._folder)
            self._forget_abandoned()
            try:
                local_path = self._hadoop.Path(source.as_uri())
                self._files.copyFromLocalFile(False, True, local_path, temporary)
                permission = self._hadoop.permission.FsPermission(_READABLE)
                self._files.setPermission(temporary, permission)
            except BaseException:
                self._files.delete(temporary, False)
                raise
            try:
                self._creation.publish(temporary, target)
            except Taken:  # by another one, who was faster
                return StagedFile(target.toString(), source.stat().st_size, False)
        return StagedFile(target.toString(), source.stat().st_size, True)

    def _forget_abandoned(self) -> None:
        oldest_millis = int(time.time() - ABANDONED_SECONDS) * 1000
        for status in self._files.listStatus(self._folder):
            is_temporary = status.getPath().getName().startswith((f".{SPARK_PREFIX}", f".{PREFIX}"))
            if is_temporary and status.getModificationTime() < oldest_millis:
                self._files.delete(status.getPath(), False)

    def _at(self, name: str) -> Any:
        return self._hadoop.Path(self._folder, name)


def archive_name(jars: Path) -> str:
    """The name of the archive with these jars. The end of a jar has its table of contents, with
    checksums; to read all jars would take longer than to start Spark."""
    digest = hashlib.sha256(FORMAT.encode())
    for jar in _jars_in(jars):
        with jar.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            digest.update(f"\0{jar.name}\0{size}\0".encode() + file.read())
    return f"{SPARK_PREFIX}{pyspark.__version__}-{digest.hexdigest()[:16]}.zip"


def _jars_in(folder: Path) -> Iterator[Path]:
    """Spark's jars, in the order of their names."""
    yield from sorted(jar for jar in folder.glob("*.jar") if jar.is_file())
