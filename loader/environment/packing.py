"""Packs the environment of this process, or finds the pack that was made of it before.

A pack's name says what is in it: our version, Python's and the platform's, and a digest over the
names and digests of all files. So a pack is made once for each environment and code.
"""

import hashlib
import os
import platform
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Final

from loader.environment.archive import PREFIX, Progress, forget_old, write_archive
from loader.environment.contents import PackedFile, driver_path, files_of, own_files
from loader.environment.distributions import OWN, required_distributions
from loader.environment.errors import EnvironmentFailed

__all__ = ["PackedEnvironment", "cache_directory", "kept", "pack_environment", "pack_name"]

FORMAT: Final = "1"  # of the archive: another one for the same files takes another number


@dataclass(frozen=True, slots=True)
class PackedEnvironment:
    """A pack, and what is to be told of it."""

    path: Path
    bytes: int
    files: int
    distributions: tuple[str, ...]  # `name version`, ours first
    python_version: str  # major and minor: executors must have the same
    driver_path: tuple[Path, ...]  # where this process has the same things
    reused: bool
    seconds: float


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Where packs are kept unless a directory is given."""
    home = environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if Path(home).is_absolute() else Path.home() / ".cache") / "penstock"


def _silent(done: int, total: int) -> None:
    """Nobody watches."""


def pack_environment(directory: Path, progress: Progress = _silent) -> PackedEnvironment:
    """Everything that executors import, in one file in the directory."""
    began = time.monotonic()
    distributions = required_distributions()
    files = _each_once(chain(own_files(), *map(files_of, distributions)))
    path = directory / pack_name(files)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        forget_old(directory, now=time.time())
        reused = path.exists()
        if reused:
            os.utime(path)
        else:
            write_archive(files, path, progress)
        size = path.stat().st_size
    except OSError as error:
        raise EnvironmentFailed(
            f"the environment cannot be packed into {directory}: {error}"
        ) from error
    return PackedEnvironment(
        path=path.resolve(),
        bytes=size,
        files=len(files),
        distributions=(
            f"{OWN} {version(OWN)}",
            *(f"{each.name} {each.version}" for each in distributions),
        ),
        python_version=python_version(),
        driver_path=tuple(driver_path(distributions)),
        reused=reused,
        seconds=time.monotonic() - began,
    )


def kept(packed: PackedEnvironment) -> PackedEnvironment:
    """The same, for as long again as packs are kept; made anew if somebody has removed it."""
    try:
        os.utime(packed.path)
    except FileNotFoundError:
        return pack_environment(packed.path.parent)
    except OSError as error:
        raise EnvironmentFailed(f"the packed environment cannot be kept: {error}") from error
    return packed


def _each_once(files: Iterable[PackedFile]) -> list[PackedFile]:
    """In the order of their names. Of two distributions with one file the first has it."""
    found: dict[str, PackedFile] = {}
    for file in files:
        found.setdefault(file.name, file)
    return [found[name] for name in sorted(found)]


def python_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def pack_name(files: Sequence[PackedFile]) -> str:
    """Without `#` and `,`, which mean something in a list of archives."""
    digest = hashlib.sha256(FORMAT.encode())
    for file in files:
        digest.update(f"\0{file.name}\0{file.digest}".encode())
    where = f"python{python_version()}-{sys.platform}-{platform.machine()}"
    return f"{PREFIX}{version(OWN)}-{where}-{digest.hexdigest()[:16]}.zip"
