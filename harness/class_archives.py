"""Java's classes as it has read them once: for JVMs that live for seconds.

Half of the processor time of a short program in Java is Java's own: it reads, verifies and links
thousands of classes. Java can keep them in an archive that it maps instead. One is made below
`.cache/`, for this Java and this class path, by whoever asks first; who asks meanwhile waits for
it. Nothing but time depends on it: where none can be made, and where a JVM cannot use it, all
starts as ever.
"""

import fcntl
import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cluster.jars import find_java
from harness.maven_jars import CACHE

# Of an archive that is not for this JVM it would warn on its output.
_QUIET: Final = ("-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def with_archive(
    folder: str, program: object, train: Callable[[Path, tuple[str, ...]], bool]
) -> tuple[str, ...]:
    """Options of a JVM, which is to write none itself. `train` does once, in a folder of its own
    and with the options that it is given, what the program does most, ends it in peace, and says
    whether it came so far. `program` tells one class path from another by its `repr`."""
    archive = CACHE / folder / f"{_of_this_java(program)}.jsa"
    if not archive.exists():
        _make(archive, train)
    return (*_QUIET, f"-XX:SharedArchiveFile={archive}") if archive.exists() else _QUIET


def _of_this_java(program: object) -> str:
    java = Path(find_java()).resolve()
    of = (java, java.stat().st_mtime_ns, program)
    return hashlib.sha256(repr(of).encode()).hexdigest()[:16]


def _make(archive: Path, train: Callable[[Path, tuple[str, ...]], bool]) -> None:
    folder = archive.parent
    folder.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".making").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if archive.exists():
            return
        with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as own:
            fresh = Path(own) / "archive.jsa"
            if train(Path(own), (f"-XX:ArchiveClassesAtExit={fresh}",)) and fresh.exists():
                fresh.replace(archive)
