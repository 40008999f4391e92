"""A release folder on the controller: its files' names, and which are missing or damaged.

`make release` writes it, with SHA256SUMS over all files. One folder may hold several releases. The
file that a host needs depends on its processor and, for servers, on its Python:

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


class Lacks(Exception):
    """A release folder lacks a file, or has a damaged one; says which, and how to get it."""


def agent(folder, version, machine):
    """The agent's archive for hosts with this processor."""
    folder = Path(folder)
    for name in MACHINES.get(machine, (machine,)):
        path = folder / f"penstock-agent-{version}-linux-{name}.tar.gz"
        if path.is_file():
            return path
    there = sorted(path.name for path in folder.glob("penstock-agent-*.tar.gz"))
    raise Lacks(
        f"{folder} has no agent of release {version} for {machine}; it has "
        f"{', '.join(there) or 'none'}"
    )


def wheelhouse(folder, version, python, machine):
    """The wheels for hosts with this Python ("311") and processor."""
    path = Path(folder) / f"penstock-wheelhouse-{version}-py{python}-linux-{machine}.tar"
    if path.is_file():
        return path
    raise Lacks(
        f"{folder} has no {path.name}: this host has Python {python[0]}.{python[1:]} on {machine}, "
        "and the release was made without wheels for it"
    )


def spark(folder, version):
    path = Path(folder) / f"penstock-wheelhouse-{version}-spark.tar"
    if path.is_file():
        return path
    raise Lacks(
        f"{folder} has no {path.name}: this release was made without PySpark, which loaders need. "
        f"Make it again: {MAKE_WITH_SPARK}"
    )


def zookeeper_jars(folder, version):
    path = Path(folder) / f"penstock-zookeeper-jars-{version}.tar"
    if path.is_file():
        return path
    raise Lacks(
        f"{folder} has no {path.name}, which ZooKeeper needs. Make the release again: {MAKE}"
    )


def check(folder, version, *, extras=(), jars=False, bundle=False):
    """Raises Lacks, with all that is wrong, unless hosts that run these programs can be installed
    from the folder. Hosts are not asked for their Python and processor: one wheelhouse must be
    there, and one agent's archive."""
    folder = Path(folder)
    if not folder.is_dir():
        raise Lacks(f"there is no release folder {folder}: {MAKE}, and copy dist/release there")
    wrong = []
    if jars:
        wrong += _faults(lambda: check_sum(zookeeper_jars(folder, version)))
    if extras:
        needs_spark = set(extras) & set(NEEDS_SPARK)
        without = _faults(lambda: check_sum(spark(folder, version))) if needs_spark else []
        # Where PySpark is missing, so are the lists of what needs it: that is one fault.
        listed = [extra for extra in extras if not (without and extra in needs_spark)]
        wrong += without + _faults(lambda: _check_wheelhouses(folder, version, listed))
    if bundle:
        pattern = f"penstock-agent-{version}-linux-*.tar.gz"
        wrong += _faults(lambda: [check_sum(path) for path in _some(folder, pattern)])
    if wrong:
        raise Lacks("; ".join(wrong))


def _faults(look):
    try:
        look()
    except Lacks as lack:
        return [str(lack)]
    return []


def _some(folder, pattern):
    paths = sorted(folder.glob(pattern))
    if not paths:
        raise Lacks(f"{folder} has no {pattern}: {MAKE}")
    return paths


def _check_wheelhouses(folder, version, extras):
    for path in _some(folder, f"penstock-wheelhouse-{version}-py*-linux-*.tar"):
        check_sum(path)
        with tarfile.open(path) as archive:
            names = {PurePosixPath(member.name).name for member in archive}
        missing = [extra for extra in extras if f"requirements-{extra}.txt" not in names]
        if missing:
            make = MAKE_WITH_SPARK if set(missing) & set(NEEDS_SPARK) else MAKE
            raise Lacks(f"{path} has no packages for {', '.join(missing)}. Make it again: {make}")


def check_sum(path):
    """The file's SHA-256, which must be the one in SHA256SUMS."""
    path = Path(path)
    sums = path.parent / "SHA256SUMS"
    if not sums.is_file():
        raise Lacks(f"there is no SHA256SUMS in {path.parent}")
    with sums.open(encoding="utf-8") as file:
        rows = [line.split() for line in file.read(_MOST_SUMS).splitlines()]
    listed = {row[1].lstrip("*"): row[0] for row in rows if len(row) == 2}
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    if listed.get(path.name) != digest.hexdigest():
        raise Lacks(f"{path} is not what SHA256SUMS beside it says")
    return digest.hexdigest()
