"""Java class archives (CDS), for JVMs that live for seconds.

A short Java program spends half of its processor time on reading, verifying and linking thousands
of classes. Java can instead map them from an archive. The first process that asks creates one below
`.cache/`, for this Java and class path; others wait for it. Archives only save time: where none can
be created or used, everything works without.
"""

import fcntl
import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cluster.zookeeper_server.jars import find_java
from harness.java.maven_jars import CACHE

# Otherwise the JVM warns on its output about an archive that does not fit it.
_QUIET: Final = ("-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def with_archive(
    folder: str, program: object, train: Callable[[Path, tuple[str, ...]], bool]
) -> tuple[str, ...]:
    """Returns JVM options that use a class archive. `train` runs once to create it, in a folder of
    its own and with the given options: it does what the program usually does, ends cleanly, and
    returns whether that succeeded. The `repr` of `program` identifies the class path."""
    archive = CACHE / folder / f"{_of_this_java(program)}.jsa"
    if not archive.exists():
        _make(archive, train)
    return (*_QUIET, f"-XX:SharedArchiveFile={archive}") if archive.exists() else _QUIET


def _of_this_java(program: object) -> str:
    java = Path(find_java()).resolve()
    identity = (java, java.stat().st_mtime_ns, program)
    return hashlib.sha256(repr(identity).encode()).hexdigest()[:16]


def _make(archive: Path, train: Callable[[Path, tuple[str, ...]], bool]) -> None:
    folder = archive.parent
    folder.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".making").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if archive.exists():
            return
        with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as scratch:
            output = Path(scratch) / "archive.jsa"
            if train(Path(scratch), (f"-XX:ArchiveClassesAtExit={output}",)) and output.exists():
                output.replace(archive)
