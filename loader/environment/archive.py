"""The pack as a file: a zip archive whose bytes follow from its contents alone.

An archive is written under a temporary name and renamed when it is whole and on disk, so that one
that is there under its name is good; a crash leaves a temporary file, which a later pack removes.
Names of files depend on their contents, so a pack is never changed. Packs that nobody used for
a month are removed.

It is a zip archive because Spark and YARN unpack those by themselves, without `tar` on the host.
"""

import os
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from loader.environment.contents import PackedFile

__all__ = ["Progress", "forget_old", "write_archive"]

# The bytes taken in so far, and how many there are.
Progress = Callable[[int, int], None]

PREFIX: Final = "penstock-environment-"
LEVEL: Final = 4  # half the time of level 6, and 4 percent larger
UNUSED_SECONDS: Final = 30 * 24 * 3600
ABANDONED_SECONDS: Final = 24 * 3600
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_READABLE_FILE: Final = 0o100644 << 16
_UNIX: Final = 3


def write_archive(files: Sequence[PackedFile], path: Path, progress: Progress) -> None:
    """Makes `path`, with the files in the order given.

    Two that make the same one at the same time do not meet.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    try:
        with temporary.open("xb") as target:
            with zipfile.ZipFile(target, "w") as archive:
                _write_files(archive, files, progress)
            target.flush()
            os.fsync(target.fileno())
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)


def _write_files(archive: zipfile.ZipFile, files: Sequence[PackedFile], progress: Progress) -> None:
    total = sum(file.source.stat().st_size for file in files)
    done = 0
    for file in files:
        entry = zipfile.ZipInfo(file.name, _EPOCH)
        entry.create_system = _UNIX
        entry.external_attr = _READABLE_FILE
        content = file.source.read_bytes()
        archive.writestr(entry, content, zipfile.ZIP_DEFLATED, compresslevel=LEVEL)
        done += len(content)
        progress(done, total)


def forget_old(directory: Path, *, now: float) -> None:
    """Removes what nobody used for long, and what a crash left half made."""
    for pattern, age in (
        (f"{PREFIX}*.zip", UNUSED_SECONDS),
        (f".{PREFIX}*.zip.*", ABANDONED_SECONDS),
    ):
        for path in directory.glob(pattern):
            try:
                if path.stat().st_mtime < now - age:
                    path.unlink()
            except FileNotFoundError:
                continue  # another loader was faster
