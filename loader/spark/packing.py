"""Packs the driver's Python environment into one file for executors that have a bare Python, or
reuses an earlier pack.

The layout of a pack is that of an installed wheel. Our own code is taken from where it is imported,
so it does not matter whether it is installed from a wheel or runs from a repository. Other
distributions are the requirements of `penstock[loader]`, and theirs in turn, except for PySpark and
its bridge to the JVM, which every executor has from Spark. Their files are those on their own
lists, without those that only serve building, testing, or use by hand.

A pack's name identifies its content: our version, Python's and the platform's, and a digest of the
names and digests of all files. So a pack is made once for each environment and code, and never
changed. It is a zip archive, because Spark and YARN unpack these by themselves, without `tar` on
the host, and its bytes depend only on its contents.

A pack is written under a temporary name, and renamed when it is complete and on disk, so a file
with a pack's name is intact. A crash leaves a temporary file, which a later pack removes. Packs
that were not used for a month are removed.
"""

import hashlib
import importlib.util
import json
import os
import platform
import re
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, PackagePath, version
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ground.files.durable_files import replacing
from loader.errors import EnvironmentFailed, NotPackable

# The folders that loader/ imports. Other programs do not run in executors.
FOLDERS: Final = ("client", "cluster", "columns", "ground", "loader", "schemas", "wire")
BESIDE: Final = "pyspark_penstock"  # Spark finds it by name
_TO_BUILD_AGAINST: Final = frozenset(
    {".a", ".c", ".cc", ".cpp", ".h", ".hpp", ".pxd", ".pxi", ".pyc", ".pyi", ".pyx"}
)
_NOT_TO_RUN: Final = frozenset({"__pycache__", "tests"})
_METADATA: Final = frozenset({"METADATA", "entry_points.txt"})
# Parts of Arrow that a loader does not need, and that nothing links to: executors write through
# Hadoop's filesystems. A library's other names, for linkers, are copies in a wheel.
_UNUSED_ARROW: Final = re.compile(
    r"pyarrow/("
    r"(include|src|includes)/.*"
    r"|(_flight|_s3fs|_gcsfs|_azurefs|_hdfs|_cuda|gandiva)\..*"
    r"|libarrow_(flight|flight_sql|s3|cuda)\.so.*|libgandiva\.so.*"
    r"|lib\w+\.so(\.\d+\.\d+\.\d+)?"
    r")"
)
OWN: Final = "penstock"
EXTRA: Final = "loader"
FROM_SPARK: Final = frozenset({"pyspark", "py4j"})
Lookup = Callable[[str], Distribution]
FORMAT: Final = "1"  # of the archive; changes if the same files give another archive
# The bytes packed so far, and the total.
Progress = Callable[[int, int], None]
PREFIX: Final = "penstock-environment-"
LEVEL: Final = 4  # half the time of level 6, and 4 percent larger
UNUSED_SECONDS: Final = 30 * 24 * 3600
ABANDONED_SECONDS: Final = 24 * 3600
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_READABLE_FILE: Final = 0o100644 << 16
_UNIX: Final = 3


def runs_here(master: str) -> bool:
    """Whether tasks run in the driver's own JVM, with this Python."""
    return master == "local" or master.startswith("local[")


class PackedFile(msgspec.Struct, frozen=True):
    """A local file, with its name in the pack."""

    name: str
    source: Path
    digest: str


def is_needed(name: str) -> bool:
    """Whether executors need this file of a distribution."""
    path = PurePosixPath(name)
    if ".." in path.parts or path.is_absolute():
        return False  # programs and manual pages, outside site-packages
    if path.parts[0].endswith(".dist-info"):
        return path.name in _METADATA
    if path.suffix in _TO_BUILD_AGAINST or _NOT_TO_RUN & set(path.parts):
        return False
    return not _UNUSED_ARROW.fullmatch(name)


def files_of(distribution: Distribution) -> Iterator[PackedFile]:
    """The files of a distribution that executors need, with digests from its own list."""
    if _is_link(distribution):
        raise NotPackable(
            f"{distribution.name} is only a link to a working directory (an editable install): "
            "install it as a package to ship it to executors"
        )
    if not distribution.files:
        raise NotPackable(
            f"{distribution.name} has no list of its files, so pip did not install it: "
            f"install it with pip for {sys.executable} to ship it to executors"
        )
    for listed_file in distribution.files:
        if is_needed(listed_file.as_posix()):
            yield PackedFile(
                listed_file.as_posix(), Path(str(listed_file.locate())), _digest(listed_file)
            )


def _is_link(distribution: Distribution) -> bool:
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    return bool(origin.get("dir_info", {}).get("editable"))


def _digest(listed: PackagePath) -> str:
    if listed.hash is not None:
        return f"{listed.hash.mode}={listed.hash.value}"
    return _digest_of(Path(str(listed.locate())))


def _digest_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def own_files() -> list[PackedFile]:
    """Penstock's own code, in the layout of its wheel."""
    package = _package(OWN)
    files = list(_below(package, OWN, without=package / "programs"))
    for folder in FOLDERS:
        files += _below(_package(folder), f"{OWN}/programs/{folder}")
    return [*files, *_below(_package(BESIDE), BESIDE)]


def driver_path(distributions: Sequence[Distribution]) -> list[Path]:
    """The directories from which this process imports the modules that executors import from the
    pack."""
    installed_folders = [Path(str(distribution.locate_file(""))) for distribution in distributions]
    return list(
        dict.fromkeys(path.resolve() for path in (_package(OWN).parent, *installed_folders))
    )


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise NotPackable(f"Penstock's package `{name}` is missing: the installation is damaged")
    return Path(spec.submodule_search_locations[0])


def _below(folder: Path, name: str, without: Path | None = None) -> Iterator[PackedFile]:
    for file in sorted(folder.rglob("*")):
        if not file.is_file() or "__pycache__" in file.parts:
            continue
        if without is None or not file.is_relative_to(without):
            relative_path = file.relative_to(folder).as_posix()
            yield PackedFile(f"{name}/{relative_path}", file, _digest_of(file))


def required_distributions(look_up: Lookup = Distribution.from_name) -> list[Distribution]:
    """All required distributions except our own, ordered by name."""
    own_distribution = _distribution(look_up, OWN, required_by="the loader")
    distributions_by_name: dict[str, Distribution] = {}
    done_requirements: set[tuple[str, str]] = set()
    waiting_distributions = [(own_distribution, EXTRA)]
    while waiting_distributions:
        distribution, requested_extra = waiting_distributions.pop()
        for requirement in _requirements(distribution, requested_extra):
            name = canonicalize_name(requirement.name)
            if name in FROM_SPARK:
                continue
            if name not in distributions_by_name:
                distributions_by_name[name] = _distribution(
                    look_up, name, required_by=distribution.name
                )
            for needed_extra in ("", *sorted(requirement.extras)):
                if (name, needed_extra) not in done_requirements:
                    done_requirements.add((name, needed_extra))
                    waiting_distributions.append((distributions_by_name[name], needed_extra))
    return [distributions_by_name[name] for name in sorted(distributions_by_name)]


def _requirements(distribution: Distribution, extra: str) -> Iterator[Requirement]:
    """The requirements on this machine, with the extra, or without any if that is empty."""
    for line in distribution.requires or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


def _distribution(look_up: Lookup, name: str, *, required_by: str) -> Distribution:
    try:
        return look_up(name)
    except PackageNotFoundError:
        raise NotPackable(
            f"{required_by} requires {name}, which is not installed for {sys.executable}: "
            f"install `{OWN}[{EXTRA}]` there"
        ) from None


class PackedEnvironment(msgspec.Struct, frozen=True):
    path: Path
    bytes: int
    files: int
    distributions: tuple[str, ...]  # `name version`, ours first
    python_version: str  # major and minor: executors must have the same
    driver_path: tuple[Path, ...]  # the directories of the same code in this process
    reused: bool
    seconds: float


def cache_directory(environ: Mapping[str, str]) -> Path:
    """The default directory of packs and of Java's cached classes."""
    home = environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if Path(home).is_absolute() else Path.home() / ".cache") / "penstock"


def _silent(done: int, total: int) -> None:
    """Ignores the progress."""


def pack_environment(directory: Path, progress: Progress = _silent) -> PackedEnvironment:
    """Packs everything that executors import into one file in the directory."""
    started_at = time.monotonic()
    distributions = required_distributions()
    files = _unique(chain(own_files(), *map(files_of, distributions)))
    path = directory / pack_name(files)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        forget_old(directory, PREFIX, ".zip", now=time.time())
        is_reused = path.exists()
        if is_reused:
            os.utime(path)
        else:
            write_archive(files, path, progress)
        size = path.stat().st_size
    except OSError as error:
        raise EnvironmentFailed(f"cannot pack the environment into {directory}: {error}") from error
    return PackedEnvironment(
        path=path.resolve(),
        bytes=size,
        files=len(files),
        distributions=(
            f"{OWN} {version(OWN)}",
            *(f"{distribution.name} {distribution.version}" for distribution in distributions),
        ),
        python_version=python_version(),
        driver_path=tuple(driver_path(distributions)),
        reused=is_reused,
        seconds=time.monotonic() - started_at,
    )


def kept(packed: PackedEnvironment) -> PackedEnvironment:
    """Extends the pack's lifetime; creates the pack again if it was removed."""
    try:
        os.utime(packed.path)
    except FileNotFoundError:
        return pack_environment(packed.path.parent)
    except OSError as error:
        raise EnvironmentFailed(
            f"cannot extend the lifetime of the packed environment: {error}"
        ) from error
    return packed


def _unique(files: Iterable[PackedFile]) -> list[PackedFile]:
    """The files ordered by name. If two distributions have the same file, the first counts."""
    files_by_name: dict[str, PackedFile] = {}
    for file in files:
        files_by_name.setdefault(file.name, file)
    return [files_by_name[name] for name in sorted(files_by_name)]


def python_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def pack_name(files: Sequence[PackedFile]) -> str:
    """The name of a pack, without `#` and `,`, which are special in a list of archives."""
    digest = hashlib.sha256(FORMAT.encode())
    for file in files:
        digest.update(f"\0{file.name}\0{file.digest}".encode())
    platform_name = f"python{python_version()}-{sys.platform}-{platform.machine()}"
    return f"{PREFIX}{version(OWN)}-{platform_name}-{digest.hexdigest()[:16]}.zip"


def write_archive(
    files: Sequence[PackedFile],
    path: Path,
    progress: Progress = _silent,
    compression: int = zipfile.ZIP_DEFLATED,
) -> None:
    """Writes the archive, with the files in the order given.

    Concurrent writers of the same archive do not interfere.
    """
    temporary_path = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    with (
        replacing(path, temporary=temporary_path) as target,
        zipfile.ZipFile(target, "w", compression, compresslevel=LEVEL) as archive,
    ):
        _write_files(archive, files, progress)


def _write_files(archive: zipfile.ZipFile, files: Sequence[PackedFile], progress: Progress) -> None:
    total_bytes = sum(file.source.stat().st_size for file in files)
    done_bytes = 0
    for file in files:
        entry = zipfile.ZipInfo(file.name, _EPOCH)
        entry.create_system = _UNIX
        entry.external_attr = _READABLE_FILE
        content = file.source.read_bytes()
        archive.writestr(entry, content, archive.compression, compresslevel=LEVEL)
        done_bytes += len(content)
        progress(done_bytes, total_bytes)


def forget_old(directory: Path, prefix: str, suffix: str, *, now: float) -> None:
    """Removes files that were not used for a long time, and incomplete files that a crash left."""
    for pattern, age_seconds in (
        (f"{prefix}*{suffix}", UNUSED_SECONDS),
        (f".{prefix}*{suffix}*", ABANDONED_SECONDS),
    ):
        for path in directory.glob(pattern):
            try:
                if path.stat().st_mtime < now - age_seconds:
                    path.unlink()
            except FileNotFoundError:
                continue  # another loader was faster
