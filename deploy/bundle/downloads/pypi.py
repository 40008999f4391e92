"""Fetches a release's wheels from PyPI with pip, which verifies every file's checksum.

`wheels.lock` pins every file by version and SHA-256, so that builds stay reproducible. Some
packages, all pure Python, are published only as sources: they are built into wheels here, with the
setuptools in the lock, offline and without pip's cache.
"""

import hashlib
import os
import sys
import tempfile
import threading
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from shutil import copyfile
from typing import Final

import msgspec
from packaging.tags import Tag
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

from deploy.bundle.agent import unpack
from deploy.bundle.archives import sha256
from deploy.bundle.targets import Target
from deploy.bundle.wheels import run_pip

LOCK: Final = Path(__file__).with_name("wheels.lock")
COLUMNS: Final = ": package, version, file, SHA-256"
_SOURCES_ONLY: Final = frozenset({"pyspark", "pure-sasl"})
# The builder of wheels from sources, and the installer for hosts without pip. Nothing else in a
# release depends on their versions, so the lock takes the newest.
BUILDER: Final = "setuptools"
INSTALLER: Final = "pip"
_ANY: Final = {Tag("py3", "none", "any"): 0}
_MOMENT: Final = "315619200"  # the time in built wheels: 1980, when zip's calendar begins


class File(msgspec.Struct, frozen=True, order=True):
    name: str
    version: str
    file: str
    sha256: str


def file_of(path: Path) -> File:
    """Returns the row of the lock for a downloaded file."""
    if path.name.endswith(".whl"):
        name, version, _, _ = parse_wheel_filename(path.name)
    else:
        name, version = parse_sdist_filename(path.name)
    return File(name, str(version), path.name, sha256(path))


class Fetcher:
    """Downloads packages into `work`, a temporary folder. `cache` keeps files by checksum, so that
    later builds download only what has changed. Without `files`, any file of a version is accepted:
    `lock` works this way, and writes the files in `seen`."""

    def __init__(self, work: Path, files: Iterable[File] | None, cache: Path) -> None:
        self._work = work
        self._files = None if files is None else list(files)
        self._cache = cache
        self._built: dict[str, Path] = {}
        self._lock = threading.RLock()
        self.seen: set[File] = set()

    def fetch(self, versions: Mapping[str, str], target: Target, into: Path) -> None:
        """Puts wheels of these packages for `target` into `into`. Raises SystemExit on failure."""
        binaries = {
            name: version for name, version in versions.items() if name not in _SOURCES_ONLY
        }
        platform_options = [f"--platform={platform}" for platform in target.platforms()]
        platform_options += [f"--python-version={target.python}", "--implementation=cp"]
        self._get(binaries, into, target.tags(), "--only-binary=:all:", *platform_options)
        for name in sorted(set(versions) - set(binaries)):
            with self._lock:
                if name not in self._built:
                    self._built[name] = self._from_sources(name, versions[name])
            _link(self._built[name], into / self._built[name].name)

    def tool(self, name: str) -> Path:
        """The wheel of `BUILDER` or `INSTALLER`, for any Python."""
        directory = self._work / name
        with self._lock:
            if not directory.exists():
                version = "" if self._files is None else self._rows(name)[0].version
                self._get({name: version}, directory, _ANY, "--only-binary=:all:")
        (wheel,) = directory.glob("*.whl")
        return wheel

    def _from_sources(self, name: str, version: str) -> Path:
        tools = self._work / "tools"
        if not tools.exists():
            unpack(self.tool(BUILDER), tools)
        sources = self._work / f"{name}-sources"
        environment = {"PYTHONPATH": str(tools), "SOURCE_DATE_EPOCH": _MOMENT}
        options = ("--no-binary=:all:", "--no-build-isolation")
        self._get({name: version}, sources, {}, *options, more=environment)
        (source,) = sources.iterdir()
        # Everything that the wheel depends on.
        inputs = (
            sha256(source),
            sha256(self.tool(BUILDER)),
            sys.version,
            zlib.ZLIB_RUNTIME_VERSION,
        )
        cache = self._cache / "made" / hashlib.sha256("\0".join(inputs).encode()).hexdigest()
        if not any(cache.glob("*.whl")):
            output = self._work / f"{name}-made"
            flags = ["--no-build-isolation", "--no-index", "--no-cache-dir", "--no-deps"]
            run_pip("wheel", *flags, f"--wheel-dir={output}", str(source), more=environment)
            (wheel,) = output.glob("*.whl")
            _keep(wheel, cache / wheel.name)
        (wheel,) = cache.glob("*.whl")
        return wheel

    def _get(
        self,
        versions: Mapping[str, str],
        into: Path,
        tags: Mapping[Tag, int],
        *options: str,
        more: Mapping[str, str] | None = None,
    ) -> None:
        into.mkdir(exist_ok=True)
        missing_versions = {}
        for name, version in versions.items():
            row = None if self._files is None else _best(self._rows(name, version), tags)
            if row is None or not self._from_cache(row, into):
                missing_versions[name] = version
        if not missing_versions:
            return
        with tempfile.TemporaryDirectory(dir=self._work) as folder:
            listing, downloads = (Path(folder) / "wanted.txt", Path(folder) / "new")
            listing.write_text(
                "".join(self._row(*pair) for pair in sorted(missing_versions.items()))
            )
            hashes = [] if self._files is None else ["--require-hashes"]
            arguments = [
                "--no-deps",
                *hashes,
                *options,
                f"--dest={downloads}",
                f"--requirement={listing}",
            ]
            run_pip("download", *arguments, more=more)
            for path in downloads.iterdir():
                file = file_of(path)
                self.seen.add(file)
                _keep(path, self._cache / file.sha256)
                _link(self._cache / file.sha256, into / file.file)

    def _from_cache(self, row: File, into: Path) -> bool:
        cached_file = self._cache / row.sha256
        if not cached_file.exists():
            return False
        if sha256(cached_file) != row.sha256:
            raise SystemExit(f"{cached_file} does not match the checksum in its name: remove it")
        self.seen.add(row)
        _link(cached_file, into / row.file)
        return True

    def _row(self, name: str, version: str) -> str:
        if self._files is None:
            return f"{name}=={version}\n" if version else f"{name}\n"
        sums = "".join(f" --hash=sha256:{row.sha256}" for row in self._rows(name, version))
        return f"{name}=={version}{sums}\n"

    def _rows(self, name: str, version: str | None = None) -> list[File]:
        rows = [
            file
            for file in self._files or ()
            if file.name == canonicalize_name(name) and version in (None, file.version)
        ]
        if not rows:
            raise SystemExit(
                f"{LOCK.name} has no {name} {version or ''}: run `python -m deploy.bundle lock`, "
                "and commit the lock"
            )
        return rows


def _best(rows: Iterable[File], tags: Mapping[Tag, int]) -> File | None:
    """The file that pip would choose: the wheel with the first of these tags, or the sources."""
    ranks = {}
    for row in rows:
        if row.file.endswith(".whl"):
            fitting_ranks = [tags[tag] for tag in parse_wheel_filename(row.file)[3] if tag in tags]
            if fitting_ranks:
                ranks[min(fitting_ranks), row] = row
        elif not tags:
            ranks[0, row] = row
    return ranks[min(ranks)] if ranks else None


def _keep(path: Path, kept: Path) -> None:
    """Copies a file into the cache by a rename, since two builds may share the cache."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    part = kept.with_name(f".{kept.name}.{os.getpid()}.{threading.get_ident()}.part")
    copyfile(path, part)
    part.replace(kept)


def _link(kept: Path, to: Path) -> None:
    if not to.exists():
        try:
            to.hardlink_to(kept)
        except OSError:  # on another filesystem
            copyfile(kept, to)
