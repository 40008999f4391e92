"""What lies in the pack, and where: always as a wheel of ours would be installed.

Our own code is found as it is imported, so that it does not matter whether it is installed from a
wheel or runs from a repository. Other distributions are taken by their own lists of files, less
what is only there to build against, to test, or to be run by hand.
"""

import hashlib
import importlib.util
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackagePath
from pathlib import Path, PurePosixPath
from typing import Final

from loader.environment.distributions import OWN
from loader.environment.errors import NotPackable

__all__ = ["PackedFile", "driver_path", "files_of", "is_needed", "own_files"]

# What loader/ imports. The other programs do not run in executors.
FOLDERS: Final = ("client", "cluster", "loader", "schemas", "serving", "wire")
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


@dataclass(frozen=True, slots=True)
class PackedFile:
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
