"""A wheelhouse: a tar of every wheel that servers need, with a requirements file for each extra.

    pip install --no-index --find-links FOLDER --require-hashes -r FOLDER/requirements-broker.txt

installs from it offline. PySpark, 450 MB, is in a tar of its own for all Python versions: only
loaders need it, and a ZooKeeper that runs from PySpark's jars.
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
COMMANDS: Final = "certificates"  # no extra: the commands alone, for a controller
EXTRAS: Final = (
    *("agent", "broker", "registry", "audit", "mirror", "loader", COMMANDS),
    *("verify", "zookeeper-login", "alert-templates", "all"),
)


def requirements(
    wheels: Mapping[str, Wheel], extra: str, target: Target, sums: Mapping[str, str]
) -> str:
    """Returns the requirements file of `penstock[extra]`, with checksums."""
    names, missing_names = closure(wheels, [_requirement(extra)], target)
    assert not missing_names, missing_names
    return "".join(
        f"{name}=={wheels[name].version} --hash=sha256:{sums[name]}\n" for name in sorted(names)
    )


def extras_of(wheels: Mapping[str, Wheel], target: Target) -> list[str]:
    """Returns the extras that these wheels can install. Without PySpark, `loader` and `all` are
    missing."""
    return [extra for extra in EXTRAS if not closure(wheels, [_requirement(extra)], target)[1]]


def _requirement(extra: str) -> str:
    return "penstock" if extra == COMMANDS else f"penstock[{extra}]"


def write(
    path: Path, wheels: Mapping[str, Wheel], installer: Wheel, target: Target, time: int
) -> None:
    """Writes the wheelhouse. Its requirements name PySpark if `wheels` has it, but the tar leaves
    PySpark out. `installer` is pip's wheel, for hosts without pip; no requirements file names
    it."""
    sums = {name: sha256(wheel.path) for name, wheel in wheels.items()}
    with TemporaryDirectory() as folder:
        tree = Path(folder)
        for extra in extras_of(wheels, target):
            text = requirements(wheels, extra, target, sums)
            (tree / f"requirements-{extra}.txt").write_text(text)
        members = [wheel for name, wheel in wheels.items() if name not in SPARK]
        _write(path, [*members, installer], tree, time)


def write_spark(path: Path, wheels: Mapping[str, Wheel], time: int) -> None:
    with TemporaryDirectory() as folder:
        _write(path, (wheels[name] for name in sorted(SPARK)), Path(folder), time)


def _write(path: Path, wheels: Iterable[Wheel], tree: Path, time: int) -> None:
    for wheel in wheels:
        copyfile(wheel.path, tree / wheel.path.name)
    with path.open("wb") as file:
        write_tar(file, tree, path.name.removesuffix(".tar"), time)
