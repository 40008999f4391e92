"""Wheels of one module, and wheelhouses of them, for the tests of bundles and releases."""

import ensurepip
import os
import sys
import zipfile
from pathlib import Path

from deploy.bundle import wheelhouse, wheels
from deploy.bundle.targets import PROCESSORS, Target


def made_wheel(
    directory: Path, name: str, version: str, *requires: str, module: str = "", command: str = ""
) -> Path:
    """A wheel as hatchling would make it, of one module; with a command of its name, if any."""
    directory.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    path = directory / f"{name}-{version}-py3-none-any.whl"
    needs = "".join(f"Requires-Dist: {each}\n" for each in requires)
    extras = "".join(f"Provides-Extra: {each}\n" for each in wheelhouse.EXTRAS)
    metadata = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{needs}{extras}"
    files = {
        f"{name}/__init__.py": f"NAME = {name!r}\n{module}",
        f"{info}/METADATA": f"{metadata}License-Expression: MIT\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if command:
        files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{name} = {command}\n"
    rows = "".join(f"{each},,\n" for each in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(path, "w") as archive:
        for each, text in {**files, f"{info}/RECORD": rows}.items():
            archive.writestr(zipfile.ZipInfo(each, (2020, 1, 1, 0, 0, 0)), text)
    return path


def made_wheelhouse(folder: Path, version: str, *files: Path) -> Path:
    """For this Python, with the pip that it has for venvs (Debian has it elsewhere)."""
    found = {each.name: each for each in map(wheels.read_wheel, files)}
    machine = os.uname().machine
    target = Target(PROCESSORS[machine], f"{sys.version_info.major}.{sys.version_info.minor}")
    file = folder / f"penstock-wheelhouse-{version}-{target.tag}-linux-{machine}.tar"
    places = (Path(ensurepip.__file__).with_name("_bundled"), Path("/usr/share/python-wheels"))
    pip = next(each for place in places for each in place.glob("pip-*.whl"))
    wheelhouse.write(file, found, wheels.read_wheel(pip), target, 1700000000)
    return file
