"""`python -m deploy.bundle --out DIR`: builds a release, the folder that hosts are installed from.

The folder holds the agent's bundle, deb, rpm and container image, a wheelhouse for each Python,
ZooKeeper's jars, the Ansible collection, an install script, a bill of materials (CycloneDX), its
provenance (in-toto, SLSA), and checksums. All names contain the version, so files of several
releases can be copied into one folder.
The source is a commit, and builds of one commit on the same Debian release are identical byte for
byte. DIR receives the finished release by a rename; a failed build leaves DIR unchanged.

`python -m deploy.bundle lock` looks up newer Debian packages for the bundle, the checksums on PyPI
of the versions in constraints.txt, and the checksums of the ZooKeeper jars in PySpark.
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
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple

from deploy.bundle import agent, collection, oci_image, provenance, sbom, wheelhouse, wheels
from deploy.bundle.archives import members_in, sha256, write_gz
from deploy.bundle.downloads import debian_packages, pypi, zookeeper_jars
from deploy.bundle.downloads.debian_packages import POOL, Package
from deploy.bundle.downloads.locks import lock_text, read_lock
from deploy.bundle.packages import debian_package, host_package, rpm_package
from deploy.bundle.targets import BUNDLED_PYTHON, PROCESSORS, PYTHONS, Processor, Target
from deploy.bundle.wheels import Wheel

ROOT: Final = Path(__file__).resolve().parents[2]
_CACHE: Final = ROOT / ".cache" / "bundle"
# A wheelhouse also has the build backend, with which hosts compile the source distribution.
_WHEELHOUSE: Final = ("penstock[all,zookeeper-login,alert-templates]", "hatchling")


class Commit(NamedTuple):
    """The commit to build. `version` ends in the revision unless the commit has a release's tag."""

    revision: str
    version: str
    time: int


def main() -> int:
    arguments = _arguments()
    if arguments.action == "lock":
        return lock()
    if arguments.out is None:
        raise SystemExit("python -m deploy.bundle: --out DIR is required")
    commit = commit_of(ROOT, arguments.commit)
    out: Path = arguments.out
    if out.exists() and any(out.iterdir()):
        raise SystemExit(
            f"{out} is not empty: move its files away, or pass --out with another folder. Files of "
            "several releases can be copied into one folder afterwards"
        )
    if not arguments.for_ansible and shutil.which("rpmbuild") is None:
        raise SystemExit("rpmbuild is missing (apt install rpm); --for-ansible does not need it")
    fix_environment(commit.time)
    out.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="penstock-release-") as folder,
        tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as temporary_folder,
    ):
        release_folder = Path(temporary_folder) / "release"
        release_folder.mkdir()
        release = Release(commit, Path(folder), release_folder, arguments.cache, arguments.pool)
        processors = [platform.machine()] if arguments.for_ansible else list(PROCESSORS)
        release.make(
            arguments.processor or processors,
            arguments.python or list(PYTHONS),
            spark=arguments.spark,
            packages=not arguments.for_ansible,
        )
        release_folder.rename(out)
    print(f"release {commit.version} is in {out}")
    return 0


def fix_environment(moment: int) -> None:
    """Sets umask, locale, hash seed and clock, which this process would inherit from its caller."""
    os.umask(0o022)
    os.environ |= {
        "LC_ALL": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "SOURCE_DATE_EPOCH": str(moment),
        "TZ": "UTC",
    }
    time.tzset()


def lock() -> int:
    """Writes the lock files: the dependencies of the working tree at the versions that the package
    archives have today."""
    debian_packages.LOCK.write_text(lock_text(debian_packages.COLUMNS, debian_packages.newest()))
    pins = wheels.pins((ROOT / "constraints.txt").read_text())
    with tempfile.TemporaryDirectory(prefix="penstock-lock-") as folder:
        work = Path(folder)
        own_wheel = wheels.built(ROOT, work / "own")
        fetcher = pypi.Fetcher(work, None, _CACHE)
        for processor in PROCESSORS.values():
            for python in sorted({*PYTHONS, BUNDLED_PYTHON}):
                target = Target(processor, python)
                directory = work / f"{target.tag}-{processor.name}"
                directory.mkdir()
                requirements = wheels.Requirements(_WHEELHOUSE, target)
                fetch = partial(fetcher.fetch, target=target, into=directory)
                wheels_by_name = wheels.fetched(requirements, own_wheel, pins, directory, fetch)
        jars = zookeeper_jars.needed(wheels_by_name["pyspark"].path)
        zookeeper_jars.LOCK.write_text(lock_text(zookeeper_jars.COLUMNS, jars))
        fetcher.tool(pypi.INSTALLER)
        pypi.LOCK.write_text(lock_text(pypi.COLUMNS, fetcher.seen))
    locks = ", ".join(str(module.LOCK) for module in (debian_packages, pypi, zookeeper_jars))
    print(f"wrote {locks}. Next: build, test (make release-tried), commit.")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m deploy.bundle", description=__doc__)
    parser.add_argument("action", nargs="?", choices=["release", "lock"], default="release")
    parser.add_argument("--out", type=Path, help="an empty folder, or one that does not exist")
    parser.add_argument("--commit", default="HEAD", help="the commit to build (%(default)s)")
    parser.add_argument(
        "--processor", action="append", choices=list(PROCESSORS), help="may be repeated (all)"
    )
    parser.add_argument(
        "--python",
        action="append",
        choices=list(PYTHONS),
        help="wheelhouses; may be repeated (all)",
    )
    parser.add_argument(
        "--for-ansible",
        action="store_true",
        help="only what the collection installs on this processor, no packages: the quickest",
    )
    parser.add_argument("--spark", action="store_true", help="include PySpark for loaders, 450 MB")
    parser.add_argument(
        "--cache", type=Path, default=_CACHE, help="folder for downloads (%(default)s)"
    )
    parser.add_argument("--pool", default=POOL, help="a Debian mirror (%(default)s)")
    return parser.parse_args()


def commit_of(repository: Path, name: str) -> Commit:
    """Returns the commit named `name`, and the version of a release built from it."""

    def git(*arguments: str) -> str:
        result = subprocess.run(
            ["git", "-C", str(repository), *arguments], capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise SystemExit(f"git {arguments[0]}: {result.stderr.strip()}")
        return result.stdout.strip()

    revision = git("rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}")
    project = tomllib.loads(git("show", f"{revision}:pyproject.toml"))["project"]
    version = str(project["version"])
    if f"v{version}" not in git("tag", "--points-at", revision).splitlines():
        # A fixed length: git's abbreviation grows with the number of commits in the clone.
        version = f"{version}+g{revision[:10]}"
    return Commit(revision, version, int(git("show", "--no-patch", "--format=%ct", revision)))


class Release:
    """Builds the files of a release in parallel, and prints each file's size and build time."""

    def __init__(self, commit: Commit, work: Path, out: Path, cache: Path, pool: str) -> None:
        self._commit = commit
        self._work = work
        self._out = out
        self._cache = cache
        self._pool = pool
        self._parts: list[sbom.Part] = []
        self._used: dict[str, str] = {}  # the SHA-256 of packages by URL
        self._platforms: list[oci_image.Platform] = []

    def make(
        self, processors: list[str], pythons: list[str], *, spark: bool, packages: bool
    ) -> None:
        version, commit_time = self._commit.version, self._commit.time
        source = wheels.exported(ROOT, self._commit.revision, self._work / "source")
        wheels.stamp(source, version)
        files = read_lock(self._committed(pypi.LOCK).read_text(), pypi.File)
        (self._work / "pypi").mkdir()
        self._fetcher = pypi.Fetcher(self._work / "pypi", files, self._cache)
        self._pinned = wheels.pins((source / "constraints.txt").read_text())
        with ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
            try:
                own_wheels = self._own_wheels(source, pool, packages=packages)
                futures = self._bundles(processors, own_wheels, pool, packages=packages)
                futures.append(pool.submit(self._jars))
                futures.append(pool.submit(self._collection, source))
                targets = [
                    Target(PROCESSORS[cpu], python) for cpu in processors for python in pythons
                ]
                futures += [
                    pool.submit(self._wheelhouse, target, own_wheels, spark=spark)
                    for target in targets
                ]
                for future in futures:
                    future.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        if packages:
            with self._file(oci_image.file_name(version)) as path:
                oci_image.write(path, self._work / "image", self._platforms, version, commit_time)
        if spark:
            self._spark(targets[0], own_wheels)
        script = (source / "deploy/bundle/install.sh").read_text().replace("@VERSION@", version)
        (self._out / f"penstock-install-{version}.sh").write_text(script)
        text = sbom.text(self._parts, version, self._commit.revision, commit_time)
        (self._out / f"penstock-{version}.cdx.json").write_text(text)
        options = {"processors": sorted(processors), "pythons": sorted(pythons), "spark": spark}
        text = provenance.text(
            self._out.iterdir(),
            self._commit.revision,
            {**options, "packages": packages},
            source,
            self._used | provenance.of_files(self._fetcher.seen),
        )
        (self._out / f"penstock-{version}.provenance.json").write_text(text)
        rows = [f"{sha256(path)}  {path.name}\n" for path in sorted(self._out.iterdir())]
        (self._out / f"penstock-{version}.SHA256SUMS").write_text("".join(rows))

    def _own_wheels(self, source: Path, pool: Executor, *, packages: bool) -> Mapping[str, Path]:
        """Penstock's wheel for each processor. Only this machine's has the C modules. With
        `packages`, the release also has this wheel, the source distribution, and the wheel of the
        provider for Airflow, as files."""
        machine = platform.machine()
        modules = pool.submit(wheels.compiled, source, self._work)
        # Built from the source distribution, so that it is known to be complete.
        sdist = wheels.sdist(source, self._work / "sdist")
        pure_wheel = wheels.built(sdist, self._work / "pure")
        wheel = wheels.with_modules(
            pure_wheel, modules.result(), PROCESSORS[machine], self._work / "own"
        )
        if packages:
            provider = wheels.built(source / wheels.AIRFLOW, self._work / "airflow")
            for path in (sdist, wheel, provider):
                shutil.copyfile(path, self._out / path.name)
        return {**dict.fromkeys(PROCESSORS, pure_wheel), machine: wheel}

    def _bundles(
        self, processors: list[str], own: Mapping[str, Path], pool: Executor, *, packages: bool
    ) -> list[Future[None]]:
        here = platform.machine()
        rows = read_lock(self._committed(debian_packages.LOCK).read_text(), Package)
        architectures = {PROCESSORS[name].debian for name in {*processors, here}}
        rows = [package for package in rows if package.architecture in architectures]
        self._used.update({sbom.of_debian(row, "").purl: row.sha256 for row in rows})
        fetch = partial(debian_packages.fetched, cache=self._cache, pool=self._pool)
        list(pool.map(fetch, rows))
        # Bytecode is the same for every processor; an interpreter for this machine compiles it.
        interpreter = self._tree(PROCESSORS[here], rows, {}, "interpreter")
        return [
            pool.submit(
                self._bundle, PROCESSORS[name], rows, own[name], interpreter, packages=packages
            )
            for name in processors
        ]

    @contextmanager
    def _file(self, name: str) -> Iterator[Path]:
        """The path of one of the release's files. Prints its size and build time at the end."""
        start = time.monotonic()
        path = self._out / name
        yield path
        seconds = time.monotonic() - start
        print(f"{path.stat().st_size / 1e6:8.1f} MB {seconds:6.1f} s  {name}", flush=True)

    def _jars(self) -> None:
        jars = read_lock(self._committed(zookeeper_jars.LOCK).read_text(), zookeeper_jars.Jar)
        with self._file(f"penstock-zookeeper-jars-{self._commit.version}.tar") as path:
            zookeeper_jars.write(path, jars, self._commit.time)
        self._parts.extend([sbom.of_jar(jar, path.name) for jar in jars])
        self._used.update({jar.purl: jar.sha256 for jar in jars})

    def _collection(self, source: Path) -> None:
        with self._file(f"penstock-pipeline-{self._commit.version}.tar.gz") as path:
            collection.write(path, source, self._commit.version, self._commit.time)

    def _committed(self, path: Path) -> Path:
        """The commit's version of one of this program's files."""
        exported_path = self._work / "source" / path.relative_to(ROOT)
        if not exported_path.exists():
            raise SystemExit(
                f"commit {self._commit.revision} has no {path.relative_to(ROOT)}: check the commit "
                "out (git worktree add), and build it with its own deploy.bundle"
            )
        return exported_path

    def _wheelhouse(self, target: Target, own: Mapping[str, Path], *, spark: bool) -> None:
        platform_tag = f"{target.tag}-linux-{target.processor.name}"
        with self._file(f"penstock-wheelhouse-{self._commit.version}-{platform_tag}.tar") as path:
            excluded_names = frozenset() if spark else wheelhouse.SPARK
            by_name = self._fetched(_WHEELHOUSE, target, own, platform_tag, excluded_names)
            installer = wheels.read_wheel(self._fetcher.tool(pypi.INSTALLER))
            wheelhouse.write(path, by_name, installer, target, self._commit.time)
        server_wheels = {
            name: wheel for name, wheel in by_name.items() if name not in wheelhouse.SPARK
        }
        self._list({**server_wheels, installer.name: installer}, path.name)

    def _spark(self, target: Target, own: Mapping[str, Path]) -> None:
        with self._file(f"penstock-wheelhouse-{self._commit.version}-spark.tar") as path:
            by_name = self._fetched(("penstock[loader]",), target, own, "spark")
            wheelhouse.write_spark(path, by_name, self._commit.time)
        self._list({name: by_name[name] for name in wheelhouse.SPARK}, path.name)

    def _bundle(
        self,
        processor: Processor,
        of_debian: list[Package],
        own: Path,
        interpreter: Path,
        *,
        packages: bool,
    ) -> None:
        version, moment = self._commit.version, self._commit.time
        target = Target(processor, BUNDLED_PYTHON)
        name = f"penstock-agent-{version}-linux-{processor.name}"
        with self._file(f"{name}.tar.gz") as path:
            roots = ("penstock[agent]",)
            by_name = self._fetched(roots, target, {processor.name: own}, f"agent-{processor.name}")
            tree = self._tree(processor, of_debian, by_name, f"bundle-{processor.name}")
            agent.compile_modules(tree, interpreter)
            if problems := agent.problems(tree, processor):
                raise SystemExit("the agent's bundle would not run:\n" + "\n".join(problems))
            if processor.name == platform.machine() and (error := agent.import_errors(tree)):
                raise SystemExit(f"the agent's bundle cannot import its modules:\n{error}")
            write_gz(path, members_in(tree, name), moment)
        files = [path.name]
        if packages:
            files += [*self._packages(tree, processor), self._image(tree, processor)]
        for file in files:
            self._list(by_name, file)
            rows = [row for row in of_debian if row.architecture == processor.debian]
            self._parts.extend([sbom.of_debian(package, file) for package in rows])

    def _packages(self, tree: Path, processor: Processor) -> list[str]:
        """Builds the deb and the rpm at the same time, since both spend theirs on compression."""
        version, moment = self._commit.version, self._commit.time

        def build(name: str, module: ModuleType) -> str:
            content = self._work / f"{name}-content"
            with self._file(name) as path:
                host_package.assemble(content, tree, self._work / "source", version, moment)
                module.build(path, content, processor, version=version, time=moment)
            shutil.rmtree(content)
            return name

        with ThreadPoolExecutor(2) as pool:
            futures = [
                pool.submit(
                    build, f"penstock-agent_{version}_{processor.debian}.deb", debian_package
                ),
                pool.submit(build, f"penstock-agent-{version}-1.{processor.name}.rpm", rpm_package),
            ]
            return [future.result() for future in futures]

    def _image(self, tree: Path, processor: Processor) -> str:
        """Adds this processor to the container image. Returns the name of the image's file."""
        version, moment = self._commit.version, self._commit.time
        labels = oci_image.labels(version, self._commit.revision, moment)
        image = oci_image.add_platform(self._work / "image", tree, processor, labels, moment)
        self._platforms.append(image)
        return oci_image.file_name(version)

    def _fetched(
        self,
        roots: tuple[str, ...],
        target: Target,
        own: Mapping[str, Path],
        folder: str,
        without: frozenset[str] = frozenset(),
    ) -> dict[str, Wheel]:
        into = self._work / f"wheels-{folder}"
        into.mkdir()
        requirements = wheels.Requirements(roots, target, without)
        fetch = partial(self._fetcher.fetch, target=target, into=into)
        return wheels.fetched(requirements, own[target.processor.name], self._pinned, into, fetch)

    def _tree(
        self, processor: Processor, packages: list[Package], by_name: Mapping[str, Wheel], name: str
    ) -> Path:
        debian_directory = self._work / f"{name}-debian"
        for package in packages:
            if package.architecture == processor.debian:
                file = debian_packages.fetched(package, self._cache, self._pool)
                debian_packages.unpack(file, debian_directory)
        tree = self._work / name
        agent.assemble(tree, debian_directory, by_name.values(), processor, self._commit.version)
        shutil.rmtree(debian_directory)
        return tree

    def _list(self, by_name: Mapping[str, Wheel], file: str) -> None:
        parts = [sbom.of_wheel(wheel, sha256(wheel.path), file) for wheel in by_name.values()]
        self._parts.extend(parts)


if __name__ == "__main__":
    sys.exit(main())
