"""Java's classes as an earlier load's Spark has read them, in a file that a JVM maps.

Half of the time until Spark is there is Java's own: it reads, verifies and links thousands of
classes. A load that nobody waits for has its JVM write them down, once for each Java, Spark and
class path, which takes it some 15 seconds more; every later one is told where they are. Nothing but
time depends on it: a JVM that cannot use the file says nothing and starts as ever.

A JVM takes a whole file for good, so it is told of no other: one is written under a temporary name,
and has its size in its name when it is on disk. What it holds is checked by the JVM itself, each
time. Files that nobody used for a month are removed.
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

from cluster.jars import find_java
from ground.durable_files import sync_directory
from loader.spark.packing import cache_directory, forget_old

PREFIX: Final = "java-classes-"
MAKING_SECONDS: Final = 120.0  # that a JVM has to write them, on a busy machine
_LEAST_FREE: Final = 1 << 30  # bytes on that disk, or none are written
# A JVM would name every class that it leaves out, and say why it cannot use a file.
_QUIET: Final = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"
# Where an operator has said something of this, it is left to him.
_SAID: Final = ("-Xshare", "SharedArchiveFile", "ArchiveClassesAtExit")
_SAY_SO: Final = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
# What a class path is made of, beside Spark's own jars.
_OF_THE_PATH: Final = (
    *("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH"),
    *("HADOOP_CONF_DIR", "YARN_CONF_DIR"),
)
_EXTRA_PATH: Final = "spark.driver.extraClassPath"

log = logging.getLogger(__name__)


class JavaClasses:
    """For the one JVM that this process starts."""

    def __init__(
        self, directory: Path | None, *, makes: bool, making_seconds: float = MAKING_SECONDS
    ) -> None:
        """Without a directory there are none. `makes`: this process ends by itself, and nobody
        waits for that."""
        self._directory = directory
        self._makes = makes
        self._making_seconds = making_seconds
        self._fresh: Path | None = None  # where our JVM writes them, and what they will be called
        self._name = ""

    @property
    def patience(self) -> float:
        """For how long the JVM may have something to write at its end; 0 if it has nothing to."""
        return self._making_seconds if self._fresh else 0.0

    def options(self, asked: str, settings: Mapping[str, str], environ: Mapping[str, str]) -> str:
        """What to tell a JVM that is about to start, beside the options that were `asked` for."""
        said = " ".join([asked, *(environ.get(each, "") for each in _SAY_SO)])
        if self._directory is None or any(each in said for each in _SAID):
            return ""
        try:
            return self._options_in(self._directory, _name(settings, environ))
        except OSError as error:
            log.warning("Java's classes cannot be kept path=%s error=%s", self._directory, error)
            return ""

    def keep(self, *, whole: bool) -> None:
        """What the JVM has written, if it has. `whole`: it came to its end; one that is killed may
        leave half of a file."""
        if self._fresh is None:
            return
        fresh, self._fresh = self._fresh, None
        try:
            if not whole or not fresh.exists():
                fresh.unlink(missing_ok=True)
                return
            size = _on_disk(fresh)
            path = fresh.with_name(f"{self._name}-{size}.jsa")
            fresh.replace(path)
            sync_directory(path.parent)
        except OSError as error:
            log.warning("Java's classes were not kept path=%s error=%s", fresh, error)
        else:
            log.info("Java's classes are kept path=%s bytes=%d", path, size)

    def _options_in(self, directory: Path, name: str) -> str:
        if any(each.isspace() or each in "\"'\\" for each in str(directory)):
            return ""  # Spark splits options as a shell does
        if (found := _found(directory, name)) is not None:
            os.utime(found)
            return f"-XX:SharedArchiveFile={found} -XX:+VerifySharedSpaces {_QUIET}"
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
    """Where they are kept; nowhere for a user who has no home."""
    try:
        return cache_directory(environ)
    except RuntimeError:
        return None


def _name(settings: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """Of one Java, one Spark and one class path."""
    java = find_java().resolve()
    jars = _jars(environ)
    of = (
        *(str(java), java.stat().st_mtime_ns, java.stat().st_size),
        *(str(jars), jars.stat().st_mtime_ns),
        *(environ.get(each, "") for each in _OF_THE_PATH),
        settings.get(_EXTRA_PATH, ""),
    )
    return PREFIX + hashlib.sha256(repr(of).encode()).hexdigest()[:16]


def _jars(environ: Mapping[str, str]) -> Path:
    """Spark's own. PySpark is looked for, and not imported."""
    if home := environ.get("SPARK_HOME"):
        return Path(home, "jars")
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "jars"


def _found(directory: Path, name: str) -> Path | None:
    """One that is as long as it says: a shorter one would end the JVM that maps it."""
    for path in directory.glob(f"{name}-*.jsa"):
        if path.stem == f"{name}-{path.stat().st_size}":
            return path
    return None


def _on_disk(path: Path) -> int:
    """Its size, when it is there."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size
