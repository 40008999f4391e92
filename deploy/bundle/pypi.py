"""PyPI's part of a release: fetched by pip, each file compared with the sum that it must have.

`wheels.lock` names every file by version and SHA-256, so that a build is the same tomorrow. pip
takes no other one, wherever it has it from. Of some packages there are only sources, pure Python:
they are made into wheels here, by the setuptools that is in the lock as well, without asking
anybody, and never by what pip remembers of an earlier build.
"""

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

from deploy.bundle.agent import unpack
from deploy.bundle.archives import sha256
from deploy.bundle.targets import Target
from deploy.bundle.wheels import run_pip

LOCK: Final = Path(__file__).with_name("wheels.lock")
_HEAD: Final = "# Made by `python -m deploy.bundle lock`: package, version, SHA-256, file.\n"
_SOURCES_ONLY: Final = frozenset({"pyspark", "pure-sasl"})
# What makes wheels of sources, and what a host without pip installs wheels with. Nothing else of a
# release depends on their versions: the lock has the newest of its day.
BUILDER: Final = "setuptools"
INSTALLER: Final = "pip"


class File(msgspec.Struct, frozen=True, order=True):
    name: str
    version: str
    file: str
    sha256: str


def locked(text: str) -> list[File]:
    """What the lock says. Raises ValueError if a line is not understood."""
    found = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, version, digest, file = line.split(" ")
            found.append(File(name, version, file, digest))
    return found


def lock_text(files: Iterable[File]) -> str:
    rows = sorted(set(files))
    return _HEAD + "".join(f"{f.name} {f.version} {f.sha256} {f.file}\n" for f in rows)


def file_of(path: Path) -> File:
    """One that was fetched."""
    if path.name.endswith(".whl"):
        name, version, _, _ = parse_wheel_filename(path.name)
    else:
        name, version = parse_sdist_filename(path.name)
    return File(name, str(version), path.name, sha256(path))


class Fetcher:
    """`work` is a folder of its own. Without `files` anything is taken: that is how a lock is made,
    and `seen` is what it is made of."""

    def __init__(self, work: Path, files: Iterable[File] | None) -> None:
        self._work = work
        self._files = None if files is None else list(files)
        self._made: dict[str, Path] = {}
        self.seen: set[File] = set()

    def fetch(self, versions: Mapping[str, str], target: Target, into: Path) -> None:
        """Wheels of these packages for `target`. Raises SystemExit if there is anything wrong."""
        ready = {name: each for name, each in versions.items() if name not in _SOURCES_ONLY}
        if ready:
            fits = [f"--platform={each}" for each in target.platforms()]
            fits += [f"--python-version={target.python}", "--implementation=cp"]
            self._download(ready, into, "--only-binary=:all:", *fits)
            self.seen |= {file_of(path) for path in into.glob("*.whl")}
        for name in sorted(set(versions) - set(ready)):
            if name not in self._made:
                self._made[name] = self._from_sources(name, versions[name])
            (into / self._made[name].name).hardlink_to(self._made[name])

    def tool(self, name: str) -> Path:
        """The wheel of `BUILDER` or `INSTALLER`, which run on every Python."""
        into = self._work / name
        if not into.exists():
            version = "" if self._files is None else self._rows(name)[0].version
            self._download({name: version}, into, "--only-binary=:all:")
            self.seen |= {file_of(path) for path in into.iterdir()}
        (wheel,) = into.glob("*.whl")
        return wheel

    def _from_sources(self, name: str, version: str) -> Path:
        tools = self._work / "tools"
        if not tools.exists():
            unpack(self.tool(BUILDER), tools)
        sources, made = self._work / f"{name}-sources", self._work / f"{name}-made"
        known = {"PYTHONPATH": str(tools)}
        options = ("--no-binary=:all:", "--no-build-isolation")
        self._download({name: version}, sources, *options, more=known)
        (source,) = sources.iterdir()
        self.seen.add(file_of(source))
        own = ["--no-build-isolation", "--no-index", "--no-cache-dir", "--no-deps"]
        run_pip("wheel", *own, f"--wheel-dir={made}", str(source), more=known)
        (wheel,) = made.glob("*.whl")
        return wheel

    def _download(
        self,
        versions: Mapping[str, str],
        into: Path,
        *options: str,
        more: Mapping[str, str] | None = None,
    ) -> None:
        with tempfile.TemporaryDirectory(dir=self._work) as folder:
            wanted = Path(folder) / "wanted.txt"
            wanted.write_text("".join(self._row(*each) for each in sorted(versions.items())))
            sums = [] if self._files is None else ["--require-hashes"]
            get = ["--no-deps", *sums, *options, f"--dest={into}", f"--requirement={wanted}"]
            run_pip("download", *get, more=more)

    def _row(self, name: str, version: str) -> str:
        if self._files is None:
            return f"{name}=={version}\n" if version else f"{name}\n"
        sums = "".join(f" --hash=sha256:{each.sha256}" for each in self._rows(name, version))
        return f"{name}=={version}{sums}\n"

    def _rows(self, name: str, version: str | None = None) -> list[File]:
        rows = [
            each
            for each in self._files or ()
            if each.name == canonicalize_name(name) and version in (None, each.version)
        ]
        if not rows:
            raise SystemExit(
                f"{LOCK.name} has no {name} {version or ''}: run `python -m deploy.bundle lock`, "
                "and commit what it writes"
            )
        return rows
