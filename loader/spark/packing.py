"""The driver's Python environment, packed into one file for executors that have a bare Python; or
the pack that was made of it before.

What lies in the pack, and where, is always as a wheel of ours would be installed. Our own code is
found as it is imported, so that it does not matter whether it is installed from a wheel or runs
from a repository. Other distributions are those that `penstock[loader]` requires, and so on down,
but for PySpark and its way to the JVM, which every executor has from Spark itself. They are taken
by their own lists of files, less what is only there to build against, to test, or to be run by
hand.

A pack's name says what is in it: our version, Python's and the platform's, and a digest over the
names and digests of all files. So a pack is made once for each environment and code, and never
changed. It is a zip archive, because Spark and YARN unpack those by themselves, without `tar` on
the host, and its bytes follow from its contents alone.

It is written under a temporary name and renamed when it is whole and on disk, so that one that is
there under its name is good; a crash leaves a temporary file, which a later pack removes. Packs
that nobody used for a month are removed.
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

from ground.durable_files import replacing
from loader.errors import EnvironmentFailed, NotPackable

# What loader/ imports. The other programs do not run in executors.
FOLDERS: Final = ("client", "cluster", "columns", "ground", "loader", "schemas", "wire")
BESIDE: Final = "pyspark_penstock"  # what Spark finds by its name
_TO_BUILD_AGAINST: Final = frozenset(
    {".a", ".c", ".cc", ".cpp", ".h", ".hpp", ".pxd", ".pxi", ".pyc", ".pyi", ".pyx"}
)
_NOT_TO_RUN: Final = frozenset({"__pycache__", "tests"})
_METADATA: Final = frozenset({"METADATA", "entry_points.txt"})
# Of Arrow's parts that nothing else links to, those that a loader has no use for: executors write
# through Hadoop's file systems. A library's other names, for linkers, are copies in a wheel.
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
FORMAT: Final = "1"  # of the archive: another one for the same files takes another number
# The bytes taken in so far, and how many there are.
Progress = Callable[[int, int], None]
PREFIX: Final = "penstock-environment-"
LEVEL: Final = 4  # half the time of level 6, and 4 percent larger
UNUSED_SECONDS: Final = 30 * 24 * 3600
ABANDONED_SECONDS: Final = 24 * 3600
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_READABLE_FILE: Final = 0o100644 << 16
_UNIX: Final = 3


def runs_here(master: str) -> bool:
    """Whether tasks run in the driver's own JVM, beside this Python."""
    return master == "local" or master.startswith("local[")


class PackedFile(msgspec.Struct, frozen=True):
    """A file here, under the name it has in the pack."""

    name: str
    source: Path
    digest: str


def is_needed(name: str) -> bool:
    """Whether a file of a distribution is of use to an executor."""
    path = PurePosixPath(name)
    if ".." in path.parts or path.is_absolute():
        return False  # programs and manual pages, outside site-packages
    if path.parts[0].endswith(".dist-info"):
        return path.name in _METADATA
    if path.suffix in _TO_BUILD_AGAINST or _NOT_TO_RUN & set(path.parts):
        return False
    return not _UNUSED_ARROW.fullmatch(name)


def files_of(distribution: Distribution) -> Iterator[PackedFile]:
    """By the distribution's own list, whose digests are taken as they stand there."""
    if _is_link(distribution):
        raise NotPackable(
            f"{distribution.name} is installed here as a link to a working directory: "
            "install it as a package to ship it to executors"
        )
    if not distribution.files:
        raise NotPackable(
            f"{distribution.name} has no list of its files, so it was not installed by pip: "
            f"install it with pip for {sys.executable} to ship it to executors"
        )
    for listed in distribution.files:
        if is_needed(listed.as_posix()):
            yield PackedFile(listed.as_posix(), Path(str(listed.locate())), _digest(listed))


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
    """Penstock's code, in the layout of its wheel."""
    package = _package(OWN)
    found = list(_below(package, OWN, without=package / "programs"))
    for folder in FOLDERS:
        found += _below(_package(folder), f"{OWN}/programs/{folder}")
    return [*found, *_below(_package(BESIDE), BESIDE)]


def driver_path(distributions: Sequence[Distribution]) -> list[Path]:
    """The directories from which this process imports what executors import from the pack."""
    installed = [Path(str(distribution.locate_file(""))) for distribution in distributions]
    return list(dict.fromkeys(path.resolve() for path in (_package(OWN).parent, *installed)))


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise NotPackable(f"Penstock's own `{name}` cannot be found: its installation is damaged")
    return Path(spec.submodule_search_locations[0])


def _below(folder: Path, name: str, without: Path | None = None) -> Iterator[PackedFile]:
    for file in sorted(folder.rglob("*")):
        if not file.is_file() or "__pycache__" in file.parts:
            continue
        if without is None or not file.is_relative_to(without):
            inside = file.relative_to(folder).as_posix()
            yield PackedFile(f"{name}/{inside}", file, _digest_of(file))


def required_distributions(look_up: Lookup = Distribution.from_name) -> list[Distribution]:
    """All but our own, in the order of their names."""
    own = _found(look_up, OWN, wanted_by="the loader")
    found: dict[str, Distribution] = {}
    done: set[tuple[str, str]] = set()
    waiting = [(own, EXTRA)]
    while waiting:
        distribution, extra = waiting.pop()
        for requirement in _requirements(distribution, extra):
            name = canonicalize_name(requirement.name)
            if name in FROM_SPARK:
                continue
            if name not in found:
                found[name] = _found(look_up, name, wanted_by=distribution.name)
            for needed in ("", *sorted(requirement.extras)):
                if (name, needed) not in done:
                    done.add((name, needed))
                    waiting.append((found[name], needed))
    return [found[name] for name in sorted(found)]


def _requirements(distribution: Distribution, extra: str) -> Iterator[Requirement]:
    """What it requires on this machine, with the extra; without any, if that is empty."""
    for line in distribution.requires or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


def _found(look_up: Lookup, name: str, *, wanted_by: str) -> Distribution:
    try:
        return look_up(name)
    except PackageNotFoundError:
        raise NotPackable(
            f"{wanted_by} needs {name}, which is not installed for {sys.executable}: "
            f"install `{OWN}[{EXTRA}]` there"
        ) from None


class PackedEnvironment(msgspec.Struct, frozen=True):
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
    """Where packs are kept unless a directory is given, and Java's classes."""
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
        forget_old(directory, PREFIX, ".zip", now=time.time())
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


def write_archive(files: Sequence[PackedFile], path: Path, progress: Progress) -> None:
    """Makes `path`, with the files in the order given.

    Two that make the same one at the same time do not meet.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    with (
        replacing(path, temporary=temporary) as target,
        zipfile.ZipFile(target, "w") as archive,
    ):
        _write_files(archive, files, progress)


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


def forget_old(directory: Path, prefix: str, suffix: str, *, now: float) -> None:
    """Removes what nobody used for long, and what a crash left half made."""
    for pattern, age in (
        (f"{prefix}*{suffix}", UNUSED_SECONDS),
        (f".{prefix}*{suffix}*", ABANDONED_SECONDS),
    ):
        for path in directory.glob(pattern):
            try:
                if path.stat().st_mtime < now - age:
                    path.unlink()
            except FileNotFoundError:
                continue  # another loader was faster
