"""Penstock's own wheel, built from a commit, and the pinned wheels that it depends on.

pip resolves dependencies for the Python that it runs on, which need not be the target's. So
`closure` resolves them for the target, and pypi.py has pip download single packages.
"""

import base64
import hashlib
import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from email.parser import HeaderParser
from pathlib import Path
from typing import Final

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from deploy.bundle import elf
from deploy.bundle.targets import GLIBC, Processor, Target

_STABLE_ABI: Final = ("-DPy_LIMITED_API=0x030b0000", "-DNDEBUG", "-g0", "-O3", "-fPIC", "-shared")
_LINKED: Final = ("-fvisibility=hidden", "-Wl,--build-id=none", "-Wl,-s")
_SHOWN_OUTPUT: Final = 2000
AIRFLOW: Final = "deploy/airflow"  # the folder of the provider, which has a wheel of its own
# The C modules, which `hatch_build` compiles for a single Python.
MODULES: Final = (
    "wire/_records",
    "broker/storage/segments/_many_files",
    "columns/_avro_columns",
    "agent/encoding/lines/_line_splitting",
    "agent/encoding/events/_iso_times",
    "agent/encoding/batches/_record_framing",
    "agent/encoding/bodies/_json_bodies",
)


class Wheel(msgspec.Struct, frozen=True):
    """A wheel and its metadata. `requires` has markers that are not evaluated yet."""

    path: Path
    name: str
    version: str
    requires: tuple[str, ...]
    license: str


def read_wheel(path: Path) -> Wheel:
    name, version, _, _ = parse_wheel_filename(path.name)
    with zipfile.ZipFile(path) as archive:
        (file,) = (
            member
            for member in archive.namelist()
            if member.count("/") == 1 and member.endswith(".dist-info/METADATA")
        )
        metadata = HeaderParser().parsestr(archive.read(file).decode("utf-8"))
    license_text = (metadata.get("License-Expression") or metadata.get("License") or "").strip()
    requires = tuple(map(str, metadata.get_all("Requires-Dist") or ()))
    return Wheel(path, name, str(version), requires, license_text.partition("\n")[0][:100])


def closure(
    wheels: Mapping[str, Wheel], roots: Iterable[str], target: Target
) -> tuple[set[str], set[str]]:
    """Returns the names of all packages that `roots` (such as `penstock[agent]`) depend on, and of
    those among them that `wheels` still lacks."""
    queue = [Requirement(root) for root in roots]
    visited_pairs: set[tuple[str, str]] = set()
    while queue:
        requirement = queue.pop()
        name = canonicalize_name(requirement.name)
        for extra in ("", *sorted(requirement.extras)):
            if (name, extra) in visited_pairs:
                continue
            visited_pairs.add((name, extra))
            environment = {**target.markers(), "extra": extra}
            dependencies = map(Requirement, wheels[name].requires if name in wheels else ())
            queue += [
                dependency
                for dependency in dependencies
                if dependency.marker is None or dependency.marker.evaluate(environment)
            ]
    names = {name for name, _ in visited_pairs}
    return names, {name for name in names if name not in wheels}


def pins(constraints: str) -> dict[str, str]:
    """Parses `name==version` lines."""
    rows = (line.strip().partition("==") for line in constraints.splitlines())
    return {canonicalize_name(name): version for name, separator, version in rows if separator}


class Requirements(msgspec.Struct, frozen=True):
    """The packages that `roots` need on `target`, except those named in `without`."""

    roots: tuple[str, ...]
    target: Target
    without: frozenset[str] = frozenset()


def fetched(
    wanted: Requirements,
    own: Path,
    pinned: Mapping[str, str],
    into: Path,
    fetch: Callable[[Mapping[str, str]], None],
) -> dict[str, Wheel]:
    """Returns the wheels by name, including `own`. Calls `fetch` for missing packages in rounds,
    since a wheel's dependencies are known only once it is downloaded."""
    wheels = {name: Wheel(Path(), name, "", (), "") for name in wanted.without}
    wheels["penstock"] = read_wheel(own)
    while True:
        names, missing_names = closure(wheels, wanted.roots, wanted.target)
        if not missing_names:
            return {name: wheels[name] for name in sorted(names - wanted.without)}
        if unknown_names := sorted(missing_names - set(pinned)):
            raise SystemExit(f"constraints.txt pins no version of {', '.join(unknown_names)}")
        fetch({name: pinned[name] for name in missing_names})
        wheels |= {wheel.name: wheel for wheel in map(read_wheel, sorted(into.glob("*.whl")))}
        if missing_wheels := sorted(missing_names - set(wheels)):
            raise SystemExit(f"pip downloaded no wheel for {', '.join(missing_wheels)}")


def exported(repository: Path, commit: str, into: Path) -> Path:
    """Exports the commit's files into `into`."""
    archive = subprocess.run(
        ["git", "-C", str(repository), "archive", commit], capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tree:
        tree.extractall(into, filter="data")
    return into


def stamp(source: Path, version: str) -> None:
    """Writes the version into an exported tree, so that wheels of two commits differ in it."""
    old_versions: dict[str, str] = {}
    for name, pattern in (
        ("pyproject.toml", r'^version = "[^"]*"$'),
        ("penstock/__init__.py", r'^__version__ = "[^"]*"$'),
        (f"{AIRFLOW}/airflow_providers_penstock/__init__.py", r'^__version__ = "[^"]*"$'),
    ):
        file = source / name
        text = file.read_text()
        lines = re.findall(pattern, text, re.MULTILINE)
        if len(lines) != 1:
            raise SystemExit(f"{name} has {len(lines)} lines with a version, expected one")
        key, _, old_versions[name] = lines[0].partition(" = ")
        line = f'{key} = "{version}"'
        file.write_text(text.replace(lines[0], line))
    if len(set(old_versions.values())) > 1:
        versions = ", ".join(
            f"{name} has {old_version}" for name, old_version in old_versions.items()
        )
        raise SystemExit(f"the versions of the commit differ: {versions}")


def sdist(source: Path, into: Path) -> Path:
    """Builds Penstock's source distribution. Its file modes and times depend only on the commit."""
    command = [sys.executable, "-m", "hatchling", "build", "--target=sdist", f"--directory={into}"]
    _checked("hatchling", command, source, {})
    (archive,) = into.glob("*.tar.gz")
    return archive


def built(source: Path, into: Path) -> Path:
    """Builds a pure-Python wheel from a source distribution or folder: Penstock's, the provider's
    for Airflow."""
    # CC=false prevents compilation: the modules would be for this machine's Python and glibc.
    options = ["--no-deps", "--no-build-isolation", "--no-cache-dir", f"--wheel-dir={into}"]
    run_pip("wheel", *options, str(source), more={"CC": "false"})
    (wheel,) = into.glob("*.whl")
    return wheel


def run_pip(command: str, *options: str, more: Mapping[str, str] | None = None) -> None:
    """Runs pip with the user's settings, and with the variables in `more`. Raises SystemExit if it
    fails."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", command, "--quiet"]
    _checked(f"pip {command}", [*pip, *options], None, more or {})


def _checked(name: str, command: list[str], folder: Path | None, more: Mapping[str, str]) -> None:
    environment = {**os.environ, **more}
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env=environment
    )
    if result.returncode:
        output = (result.stderr.strip() or result.stdout.strip())[-_SHOWN_OUTPUT:]
        raise SystemExit(f"{name} failed, so no release was built:\n{output}")


def compiled(source: Path, into: Path) -> dict[str, Path]:
    """Compiles the C modules for this machine's processor and Python 3.11 or later; returns their
    files by path in the wheel. Raises SystemExit if there is no compiler, or if a module needs a
    newer glibc than `GLIBC`."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        files = list(pool.map(lambda name: _compiled(source, name, into), MODULES))
    return {
        f"penstock/programs/{name}.abi3.so": file for name, file in zip(MODULES, files, strict=True)
    }


def _compiled(source: Path, name: str, into: Path) -> Path:
    code = source / f"{name}.c"
    module = into / f"{code.stem}.abi3.so"
    headers = f"-I{sysconfig.get_path('include')}"
    # Run in the source's folder: the compiler would record a path.
    compiler = os.environ.get("CC", "cc")
    result = subprocess.run(
        [compiler, *_STABLE_ABI, headers, code.name, *_LINKED, "-o", str(module)],
        cwd=code.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise SystemExit(f"could not compile {name}.c:\n{result.stderr}")
    if elf.needs(module).glibc() > GLIBC:
        glibc = ".".join(map(str, GLIBC))
        raise SystemExit(f"{name}.c compiled with {compiler} needs a newer glibc than {glibc}")
    return module


def with_modules(
    wheel: Path, modules: Mapping[str, Path], processor: Processor, into: Path
) -> Path:
    """Copies a pure-Python wheel into one for a platform, with compiled modules added."""
    tag = f"cp311-abi3-manylinux_{GLIBC[0]}_{GLIBC[1]}_{processor.name}"
    into.mkdir(parents=True, exist_ok=True)
    target = into / wheel.name.replace("py3-none-any", tag)
    with zipfile.ZipFile(wheel) as pure:
        time = pure.infolist()[0].date_time
        files = {member.filename: pure.read(member) for member in pure.infolist()}
    files |= {name: module.read_bytes() for name, module in modules.items()}
    (record,) = (name for name in files if name.endswith(".dist-info/RECORD"))
    del files[record]
    header = record.replace("RECORD", "WHEEL")
    lines = files[header].decode().splitlines()
    tags = [line for line in lines if line and not line.startswith(("Tag:", "Root-Is-Purelib:"))]
    tags += ["Root-Is-Purelib: false", f"Tag: {tag}"]
    files[header] = "".join(f"{line}\n" for line in tags).encode()
    rows = "".join(f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items())
    files[record] = f"{rows}{record},,\n".encode()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            member = zipfile.ZipInfo(name, time)
            member.external_attr = (0o755 if name in modules else 0o644) << 16
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, data)
    return target


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
