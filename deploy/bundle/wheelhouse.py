"""A wheelhouse: one tar with every wheel that the programs of a host need, and for each extra a
list with sums.

    pip install --no-index --find-links FOLDER --require-hashes -r FOLDER/requirements-broker.txt

installs from it, without asking the internet. PySpark is 450 MB and needed by loaders alone (and
where ZooKeeper runs from its jars), so it lies in a tar of its own, which fits every Python.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import Final

from deploy.bundle.archives import sha256, write_tar
from deploy.bundle.targets import Target
from deploy.bundle.wheels import Wheel, closure

SPARK: Final = frozenset({"pyspark", "py4j"})
EXTRAS: Final = (
    *("agent", "broker", "registry", "audit", "mirror", "loader", "certificates"),
    *("zookeeper-login", "all"),
)


def requirements(
    wheels: Mapping[str, Wheel], extra: str, target: Target, sums: Mapping[str, str]
) -> str:
    """What `penstock[extra]` comes to, in pip's form with sums."""
    names, missing = closure(wheels, [f"penstock[{extra}]"], target)
    assert not missing, missing
    return "".join(
        f"{name}=={wheels[name].version} --hash=sha256:{sums[name]}\n" for name in sorted(names)
    )


def extras_of(wheels: Mapping[str, Wheel], target: Target) -> list[str]:
    """Those that can be installed from these wheels: without PySpark, not the loader's."""
    return [extra for extra in EXTRAS if not closure(wheels, [f"penstock[{extra}]"], target)[1]]


def write(
    path: Path, wheels: Mapping[str, Wheel], installer: Wheel, target: Target, time: int
) -> None:
    """The wheelhouse; PySpark is in its lists of requirements if there is a wheel of it. pip comes
    along as `installer`, for hosts that have none, and is in no list."""
    sums = {name: sha256(wheel.path) for name, wheel in wheels.items()}
    with TemporaryDirectory() as folder:
        tree = Path(folder)
        for extra in extras_of(wheels, target):
            text = requirements(wheels, extra, target, sums)
            (tree / f"requirements-{extra}.txt").write_text(text)
        inside = [each for name, each in wheels.items() if name not in SPARK]
        _write(path, [*inside, installer], tree, time)


def write_spark(path: Path, wheels: Mapping[str, Wheel], time: int) -> None:
    with TemporaryDirectory() as folder:
        _write(path, (wheels[name] for name in sorted(SPARK)), Path(folder), time)


def _write(path: Path, wheels: Iterable[Wheel], tree: Path, time: int) -> None:
    for wheel in wheels:
        copyfile(wheel.path, tree / wheel.path.name)
    with path.open("wb") as file:
        write_tar(file, tree, path.name.removesuffix(".tar"), time)
