"""Caches Java's loaded classes in a file that the JVM maps, to start Spark faster.

Half of Spark's start-up time is Java's own: it reads, verifies and links thousands of classes. A
load that is not urgent lets its JVM write them to a file, once for each Java, Spark and class
path, which takes some 15 seconds; later JVMs use it. It only affects speed: a JVM that cannot use
the file silently starts as usual.

A JVM trusts a complete file, so it must not see an incomplete one: files are written under a
temporary name, and get their size into their name when they are on disk. The JVM verifies the
content each time. Files that were not used for a month are removed.
"""

import hashlib
import logging
import os
import shutil
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from cluster.zookeeper_server.jars import find_java
from ground.files.durable_files import sync_directory
from loader.spark.packing import cache_directory, forget_old

PREFIX: Final = "java-classes-"
MAKING_SECONDS: Final = 120.0  # a JVM's time to write them, on a busy machine
_LEAST_FREE: Final = 1 << 30  # bytes; with less disk space, none are written
# Otherwise a JVM logs every class that it omits, and why it cannot use a file.
_QUIET: Final = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"
# Options by which an operator configures this; they take precedence.
_CONFIGURED_BY: Final = ("-Xshare", "SharedArchiveFile", "ArchiveClassesAtExit")
_OPTION_VARIABLES: Final = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
# Variables that affect the class path, beside Spark's own jars.
_PATH_VARIABLES: Final = (
    *("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH"),
    *("HADOOP_CONF_DIR", "YARN_CONF_DIR"),
)
_EXTRA_PATH: Final = "spark.driver.extraClassPath"

log = logging.getLogger(__name__)


class JavaClasses:
    """The cache for the JVM that this process starts."""

    def __init__(
        self, directory: Path | None, *, makes: bool, making_seconds: float = MAKING_SECONDS
    ) -> None:
        """Without a directory there is no cache. `makes`: files may be written, because the
        end of this process is not urgent."""
        self._directory = directory
        self._makes = makes
        self._making_seconds = making_seconds
        self._fresh: Path | None = None  # the temporary file that our JVM writes
        self._name = ""

    @property
    def patience(self) -> float:
        """The additional time that the JVM may need to exit; 0 if it writes no file."""
        return self._making_seconds if self._fresh else 0.0

    def options(self, asked: str, settings: Mapping[str, str], environ: Mapping[str, str]) -> str:
        """Returns the options to add to those in `asked`, for a JVM that is about to start."""
        all_options = " ".join([asked, *(environ.get(name, "") for name in _OPTION_VARIABLES)])
        if self._directory is None or any(option in all_options for option in _CONFIGURED_BY):
            return ""
        try:
            return self._options_in(self._directory, _name(settings, environ))
        except OSError as error:
            log.warning("cannot cache Java classes path=%s error=%s", self._directory, error)
            return ""

    def keep(self, *, whole: bool) -> None:
        """Keeps the JVM's file of classes, if there is one. `whole`: the JVM exited by itself;
        after it was killed, the file may be incomplete."""
        if self._fresh is None:
            return
        fresh_path, self._fresh = self._fresh, None
        try:
            if not whole or not fresh_path.exists():
                fresh_path.unlink(missing_ok=True)
                return
            size = _on_disk(fresh_path)
            path = fresh_path.with_name(f"{self._name}-{size}.jsa")
            fresh_path.replace(path)
            sync_directory(path.parent)
        except OSError as error:
            log.warning("cannot cache Java classes path=%s error=%s", fresh_path, error)
        else:
            log.info("cached Java classes path=%s bytes=%d", path, size)

    def _options_in(self, directory: Path, name: str) -> str:
        if any(letter.isspace() or letter in "\"'\\" for letter in str(directory)):
            return ""  # Spark splits options like a shell
        if (cached_path := _cached(directory, name)) is not None:
            os.utime(cached_path)
            return f"-XX:SharedArchiveFile={cached_path} -XX:+VerifySharedSpaces {_QUIET}"
        if not self._makes:
            return ""
        directory.mkdir(parents=True, exist_ok=True)
        forget_old(directory, PREFIX, ".jsa", now=time.time())
        if shutil.disk_usage(directory).free < _LEAST_FREE:
            return ""
        self._name = name
        self._fresh = directory / f".{name}.{os.getpid()}.jsa"
        return f"-XX:ArchiveClassesAtExit={self._fresh} {_QUIET}"


def classes_directory(environ: Mapping[str, str]) -> Path | None:
    """The directory of the cache; None for a user without a home."""
    try:
        return cache_directory(environ)
    except RuntimeError:
        return None


def _name(settings: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """The name for this Java, Spark and class path."""
    java = find_java().resolve()
    jars = spark_jars(environ)
    identity = (
        *(str(java), java.stat().st_mtime_ns, java.stat().st_size),
        *(str(jars), jars.stat().st_mtime_ns),
        *(environ.get(variable, "") for variable in _PATH_VARIABLES),
        settings.get(_EXTRA_PATH, ""),
    )
    return PREFIX + hashlib.sha256(repr(identity).encode()).hexdigest()[:16]


def spark_jars(environ: Mapping[str, str]) -> Path:
    """Spark's own jars. Finds PySpark without importing it."""
    if spark_home := environ.get("SPARK_HOME"):
        return Path(spark_home, "jars")
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "jars"


def _cached(directory: Path, name: str) -> Path | None:
    """A file whose length matches its name: a shorter one would crash the JVM that maps it."""
    for path in directory.glob(f"{name}-*.jsa"):
        if path.stem == f"{name}-{path.stat().st_size}":
            return path
    return None


def _on_disk(path: Path) -> int:
    """The file's size, after it was synced."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size
