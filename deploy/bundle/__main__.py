"""`python -m deploy.bundle --out DIR`: makes a release, the folder that hosts are installed from.

It holds the agent's bundle and its Debian package, a wheelhouse for each Python, a list of what is
in them (CycloneDX), and SHA256SUMS. It is made of what is committed, and two builds of a commit on
the same Debian are equal byte by byte, wherever, whenever and by whomever they are made. It appears
in DIR when it is whole; whatever goes wrong leaves DIR as it was.

`python -m deploy.bundle lock` asks Debian for newer packages for the bundle, and PyPI for the sums
of what constraints.txt pins.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from deploy.bundle import (
    agent,
    debian_package,
    debian_packages,
    pypi,
    sbom,
    wheelhouse,
    wheels,
)
from deploy.bundle.archives import sha256, write_tar_gz
from deploy.bundle.debian_packages import POOL, Package
from deploy.bundle.targets import BUNDLED_PYTHON, PROCESSORS, PYTHONS, Processor, Target
from deploy.bundle.wheels import Wheel

ROOT: Final = Path(__file__).resolve().parents[2]
_CACHE: Final = ROOT / ".cache" / "bundle"
EVERYTHING: Final = "penstock[all,zookeeper-login]"


class Commit(NamedTuple):
    """What is built. `version`: with the commit in it, where no tag says that it is a release."""

    revision: str
    version: str
    time: int


def main() -> int:
    arguments = _arguments()
    if arguments.action == "lock":
        return lock()
    if arguments.out is None:
        raise SystemExit("python -m deploy.bundle: where to? --out DIR")
    commit = commit_of(ROOT, arguments.commit)
    out: Path = arguments.out
    if out.exists() and any(out.iterdir()):
        raise SystemExit(f"{out} is not empty: a release is made in a folder of its own")
    settle(commit.time)
    out.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="penstock-release-") as folder,
        tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as beside,
    ):
        made = Path(beside) / "release"
        made.mkdir()
        release = Release(commit, Path(folder), made, arguments.cache, arguments.pool)
        release.make(
            arguments.processor or list(PROCESSORS),
            arguments.python or list(PYTHONS),
            spark=arguments.spark,
        )
        made.rename(out)
    for path in sorted(out.iterdir()):
        print(f"{path.stat().st_size / 1e6:8.1f} MB  {path}")
    return 0


def settle(moment: int) -> None:
    """What this process and those that it starts would else take over from whoever started it."""
    os.umask(0o022)
    os.environ |= {
        "LC_ALL": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "SOURCE_DATE_EPOCH": str(moment),
        "TZ": "UTC",
    }
    time.tzset()


def lock() -> int:
    """Both locks, of what the working tree wants and the archives have today."""
    debian_packages.LOCK.write_text(debian_packages.lock_text(debian_packages.newest()))
    pinned = wheels.pins((ROOT / "constraints.txt").read_text())
    with tempfile.TemporaryDirectory(prefix="penstock-lock-") as folder:
        work = Path(folder)
        own = wheels.built(ROOT, work / "own")
        fetcher = pypi.Fetcher(work, None)
        for processor in PROCESSORS.values():
            for python in sorted({*PYTHONS, BUNDLED_PYTHON}):
                target = Target(processor, python)
                into = work / f"{target.tag}-{processor.name}"
                into.mkdir()
                wanted = wheels.Wanted((EVERYTHING,), target)
                fetch = partial(fetcher.fetch, target=target, into=into)
                wheels.fetched(wanted, own, pinned, into, fetch)
        fetcher.tool(pypi.INSTALLER)
        pypi.LOCK.write_text(pypi.lock_text(fetcher.seen))
    print(f"written: {debian_packages.LOCK}, {pypi.LOCK}. Build, try (make release-tried), commit.")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m deploy.bundle", description=__doc__)
    parser.add_argument("action", nargs="?", choices=["release", "lock"], default="release")
    parser.add_argument("--out", type=Path, help="an empty folder, or one that is not there yet")
    parser.add_argument("--commit", default="HEAD", help="what is built (%(default)s)")
    parser.add_argument(
        "--processor", action="append", choices=list(PROCESSORS), help="only these; all otherwise"
    )
    parser.add_argument(
        "--python", action="append", choices=list(PYTHONS), help="wheelhouses for these; all else"
    )
    parser.add_argument("--spark", action="store_true", help="PySpark for loaders, too: 450 MB")
    parser.add_argument("--cache", type=Path, default=_CACHE, help="fetched packages (%(default)s)")
    parser.add_argument("--pool", default=POOL, help="a mirror of Debian (%(default)s)")
    return parser.parse_args()


def commit_of(repository: Path, name: str) -> Commit:
    """The commit that `name` means, and the version of what is built of it."""

    def git(*arguments: str) -> str:
        ended = subprocess.run(
            ["git", "-C", str(repository), *arguments], capture_output=True, text=True, check=False
        )
        if ended.returncode:
            raise SystemExit(f"git {arguments[0]}: {ended.stderr.strip()}")
        return ended.stdout.strip()

    revision = git("rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}")
    project = tomllib.loads(git("show", f"{revision}:pyproject.toml"))["project"]
    version = str(project["version"])
    if f"v{version}" not in git("tag", "--points-at", revision).splitlines():
        # Always as long, however many commits a clone has.
        version = f"{version}+g{revision[:10]}"
    return Commit(revision, version, int(git("show", "--no-patch", "--format=%ct", revision)))


class Release:
    """One that is being made: what was found goes into the list of its parts."""

    def __init__(self, commit: Commit, work: Path, out: Path, cache: Path, pool: str) -> None:
        self._commit = commit
        self._work = work
        self._out = out
        self._cache = cache
        self._pool = pool
        self._parts: list[sbom.Part] = []

    def make(self, processors: list[str], pythons: list[str], *, spark: bool) -> None:
        here = platform.machine()
        source = wheels.exported(ROOT, self._commit.revision, self._work / "source")
        packages = debian_packages.locked(self._committed(debian_packages.LOCK).read_text())
        files = pypi.locked(self._committed(pypi.LOCK).read_text())
        (self._work / "pypi").mkdir()
        self._fetcher = pypi.Fetcher(self._work / "pypi", files)
        pure = wheels.built(source, self._work / "pure")
        pinned = wheels.pins((source / "constraints.txt").read_text())
        own = dict.fromkeys(PROCESSORS, pure)
        if here in processors:
            modules = wheels.compiled(source, self._work)
            own[here] = wheels.with_modules(pure, modules, PROCESSORS[here], self._work / "own")
        for name in processors:
            for python in pythons:
                self._wheelhouse(Target(PROCESSORS[name], python), own[name], pinned, spark=spark)
        # Bytecode is the same for every processor; an interpreter for this machine makes it.
        interpreter = self._tree(PROCESSORS[here], packages, {}, "interpreter")
        for name in processors:
            self._bundle(PROCESSORS[name], packages, own[name], pinned, interpreter)
        version = self._commit.version
        told = sbom.text(self._parts, version, self._commit.revision, self._commit.time)
        (self._out / f"penstock-{version}.cdx.json").write_text(told)
        rows = [f"{sha256(path)}  {path.name}\n" for path in sorted(self._out.iterdir())]
        (self._out / "SHA256SUMS").write_text("".join(rows))

    def _committed(self, path: Path) -> Path:
        """A file of this program as the commit has it."""
        found = self._work / "source" / path.relative_to(ROOT)
        if not found.exists():
            raise SystemExit(
                f"{self._commit.revision} has no {path.relative_to(ROOT)}: build it in a work tree "
                "of its own, by the program that it has (git worktree add)"
            )
        return found

    def _wheelhouse(
        self, target: Target, own: Path, pinned: Mapping[str, str], *, spark: bool
    ) -> None:
        left_out = frozenset() if spark else wheelhouse.SPARK
        found = self._fetched([EVERYTHING], target, own, pinned, left_out)
        version, time = self._commit.version, self._commit.time
        platform_tag = f"{target.tag}-linux-{target.processor.name}"
        file = f"penstock-wheelhouse-{version}-{platform_tag}.tar"
        installer = wheels.read_wheel(self._fetcher.tool(pypi.INSTALLER))
        wheelhouse.write(self._out / file, found, installer, target, time)
        inside = {name: each for name, each in found.items() if name not in wheelhouse.SPARK}
        self._list({**inside, installer.name: installer}, file)
        spark_file = f"penstock-wheelhouse-{version}-spark.tar"
        if spark and not (self._out / spark_file).exists():
            wheelhouse.write_spark(self._out / spark_file, found, time)
            self._list({name: found[name] for name in wheelhouse.SPARK}, spark_file)

    def _bundle(
        self,
        processor: Processor,
        packages: list[Package],
        own: Path,
        pinned: Mapping[str, str],
        interpreter: Path,
    ) -> None:
        target = Target(processor, BUNDLED_PYTHON)
        found = self._fetched(["penstock[agent]"], target, own, pinned)
        tree = self._tree(processor, packages, found, f"bundle-{processor.name}")
        agent.compile_modules(tree, interpreter)
        if wrong := agent.checked(tree, processor):
            raise SystemExit("the agent's bundle would not run:\n" + "\n".join(wrong))
        if processor.name == platform.machine() and (said := agent.imports(tree)):
            raise SystemExit(f"the agent's bundle lacks something:\n{said}")
        version, time = self._commit.version, self._commit.time
        name = f"penstock-agent-{version}-linux-{processor.name}"
        write_tar_gz(self._out / f"{name}.tar.gz", tree, name, time)
        deb = f"penstock-agent_{version}_{processor.debian}.deb"
        source = self._work / "source"
        debian_package.build(self._out / deb, tree, source, processor, version=version, time=time)
        for file in (f"{name}.tar.gz", deb):
            self._list(found, file)
            mine = [each for each in packages if each.architecture == processor.debian]
            self._parts += [sbom.of_debian(each, file) for each in mine]

    def _fetched(
        self,
        roots: list[str],
        target: Target,
        own: Path,
        pinned: Mapping[str, str],
        without: frozenset[str] = frozenset(),
    ) -> dict[str, Wheel]:
        into = self._work / f"{target.tag}-{target.processor.name}"
        into.mkdir(exist_ok=True)

        wanted = wheels.Wanted(tuple(roots), target, without)
        fetch = partial(self._fetcher.fetch, target=target, into=into)
        return wheels.fetched(wanted, own, pinned, into, fetch)

    def _tree(
        self, processor: Processor, packages: list[Package], found: Mapping[str, Wheel], name: str
    ) -> Path:
        debian = self._work / f"{name}-debian"
        for package in packages:
            if package.architecture == processor.debian:
                file = debian_packages.fetched(package, self._cache, self._pool)
                debian_packages.unpack(file, debian)
        tree = self._work / name
        agent.assemble(tree, debian, found.values(), processor, self._commit.version)
        shutil.rmtree(debian)
        return tree

    def _list(self, found: Mapping[str, Wheel], file: str) -> None:
        parts = (sbom.of_wheel(each, sha256(each.path), file) for each in found.values())
        self._parts += parts


if __name__ == "__main__":
    sys.exit(main())
