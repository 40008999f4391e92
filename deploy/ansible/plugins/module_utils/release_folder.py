"""The release folder on the controller: the names of its files, and checks for missing or damaged
files.

`make release` writes it. A folder may contain several releases, each with a file of checksums. The
file that a host needs depends on its processor and, for servers, on its Python:

    penstock-VERSION.SHA256SUMS                           the checksums of a release's files
    penstock-agent-VERSION-linux-MACHINE.tar.gz           agents
    penstock-wheelhouse-VERSION-pyXY-linux-MACHINE.tar    servers: wheels, requirements-EXTRA.txt
    penstock-wheelhouse-VERSION-spark.tar                 PySpark, for loaders
    penstock-zookeeper-jars-VERSION.tar                   ZooKeeper
"""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path, PurePosixPath

MACHINES = {"x86_64": ("x86_64", "amd64"), "aarch64": ("aarch64", "arm64")}
NEEDS_SPARK = ("all", "loader")
MAKE = 'make release ARGS="--for-ansible"'
MAKE_WITH_SPARK = 'make release ARGS="--for-ansible --spark"'
_MOST_SUMS = 1 << 20


class IncompleteRelease(Exception):
    """A file of the release folder is missing or damaged; the message says how to get it."""


def agent(folder, version, machine):
    """Returns the path of the agent's archive for hosts with this processor."""
    folder = Path(folder)
    for name in MACHINES.get(machine, (machine,)):
        path = folder / f"penstock-agent-{version}-linux-{name}.tar.gz"
        if path.is_file():
            return path
    names = sorted(path.name for path in folder.glob("penstock-agent-*.tar.gz"))
    raise IncompleteRelease(
        f"{folder} has no agent of release {version} for {machine}; it has "
        f"{', '.join(names) or 'none'}"
    )


def wheelhouse(folder, version, python, machine):
    """Returns the path of the wheels for hosts with this Python ("311") and processor."""
    path = Path(folder) / f"penstock-wheelhouse-{version}-py{python}-linux-{machine}.tar"
    if path.is_file():
        return path
    raise IncompleteRelease(
        f"{folder} has no {path.name}: this host has Python {python[0]}.{python[1:]} on {machine}, "
        "and the release was built without wheels for it"
    )


def spark(folder, version):
    path = Path(folder) / f"penstock-wheelhouse-{version}-spark.tar"
    if path.is_file():
        return path
    raise IncompleteRelease(
        f"{folder} has no {path.name}: the release was built without PySpark, which loaders need. "
        f"Build it again: {MAKE_WITH_SPARK}"
    )


def zookeeper_jars(folder, version):
    path = Path(folder) / f"penstock-zookeeper-jars-{version}.tar"
    if path.is_file():
        return path
    raise IncompleteRelease(
        f"{folder} has no {path.name}, which ZooKeeper needs. Build the release again: {MAKE}"
    )


def sums_of(folder, version):
    """Returns the path of a release's checksums. `make release` writes them last."""
    return Path(folder) / f"penstock-{version}.SHA256SUMS"


def _versions(folder):
    return sorted(path.name[9:-11] for path in folder.glob("penstock-*.SHA256SUMS"))


def check(folder, version, *, extras=(), jars=False, bundle=False):
    """Raises IncompleteRelease, listing all problems, unless hosts that run these programs can be
    installed from the folder. The hosts' Python versions and processors are not known yet, so one
    wheelhouse and one agent's archive suffice."""
    folder = Path(folder)
    if not folder.is_dir():
        raise IncompleteRelease(
            f"release folder {folder} does not exist: {MAKE}, and copy dist/release there"
        )
    versions = _versions(folder)
    if version not in versions:
        contents = f"it has {', '.join(versions)}" if versions else "it has none"
        raise IncompleteRelease(
            f"{folder} has no release {version}, with {sums_of(folder, version).name}; {contents}. "
            f"Copy the files of {version} there, or set penstock_release"
        )
    problems = []
    if jars:
        problems += _problems(lambda: check_sum(zookeeper_jars(folder, version), version))
    if extras:
        needs_spark = set(extras) & set(NEEDS_SPARK)
        spark_problems = (
            _problems(lambda: check_sum(spark(folder, version), version)) if needs_spark else []
        )
        # Without PySpark the requirements files that name it are missing, too: one problem.
        needed_extras = [extra for extra in extras if not (spark_problems and extra in needs_spark)]
        problems += spark_problems + _problems(
            lambda: _check_wheelhouses(folder, version, needed_extras)
        )
    if bundle:
        pattern = f"penstock-agent-{version}-linux-*.tar.gz"
        problems += _problems(
            lambda: [check_sum(path, version) for path in _matches(folder, pattern)]
        )
    if problems:
        raise IncompleteRelease("; ".join(problems))


def _problems(check_files):
    try:
        check_files()
    except IncompleteRelease as error:
        return [str(error)]
    return []


def _matches(folder, pattern):
    paths = sorted(folder.glob(pattern))
    if not paths:
        raise IncompleteRelease(f"{folder} has no {pattern}: {MAKE}")
    return paths


def _check_wheelhouses(folder, version, extras):
    for path in _matches(folder, f"penstock-wheelhouse-{version}-py*-linux-*.tar"):
        check_sum(path, version)
        with tarfile.open(path) as archive:
            names = {PurePosixPath(member.name).name for member in archive}
        missing_extras = [extra for extra in extras if f"requirements-{extra}.txt" not in names]
        if missing_extras:
            make = MAKE_WITH_SPARK if set(missing_extras) & set(NEEDS_SPARK) else MAKE
            raise IncompleteRelease(
                f"{path} has no packages for {', '.join(missing_extras)}. Build it again: {make}"
            )


def check_sum(path, version):
    """Returns the file's SHA-256. Raises IncompleteRelease unless it equals the one in the
    release's checksums."""
    path = Path(path)
    sums = sums_of(path.parent, version)
    if not sums.is_file():
        raise IncompleteRelease(f"{path.parent} has no {sums.name}, the checksums of {path.name}")
    with sums.open(encoding="utf-8") as file:
        rows = [line.split() for line in file.read(_MOST_SUMS).splitlines()]
    sums_by_name = {row[1].lstrip("*"): row[0] for row in rows if len(row) == 2}
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    if sums_by_name.get(path.name) != digest.hexdigest():
        raise IncompleteRelease(f"{path} does not match {sums.name} in the same folder")
    return digest.hexdigest()
