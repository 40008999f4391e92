"""Wheels: Penstock's own, built of a commit, and which others it needs, in the pinned versions.

pypi.py fetches those for a target that need not be this machine, without asking what they need: pip
would ask that of the Python it runs on. `closure` asks for the target.
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
_LAST_WORDS: Final = 2000
# What `hatch_build` compiles for one Python.
MODULES: Final = (
    "wire/_records",
    "broker/storage/_many_files",
    "columns/_avro_columns",
    "agent/events/_line_splitting",
    "agent/events/_iso_times",
    "agent/batches/_record_framing",
    "agent/batches/_json_bodies",
)


class Wheel(msgspec.Struct, frozen=True):
    """`requires`: its conditions are not looked at yet."""

    path: Path
    name: str
    version: str
    requires: tuple[str, ...]
    license: str


def read_wheel(path: Path) -> Wheel:
    name, version, _, _ = parse_wheel_filename(path.name)
    with zipfile.ZipFile(path) as archive:
        (metadata,) = (
            each
            for each in archive.namelist()
            if each.count("/") == 1 and each.endswith(".dist-info/METADATA")
        )
        said = HeaderParser().parsestr(archive.read(metadata).decode("utf-8"))
    license_said = (said.get("License-Expression") or said.get("License") or "").strip()
    requires = tuple(map(str, said.get_all("Requires-Dist") or ()))
    return Wheel(path, name, str(version), requires, license_said.partition("\n")[0][:100])


def closure(
    wheels: Mapping[str, Wheel], roots: Iterable[str], target: Target
) -> tuple[set[str], set[str]]:
    """The names that `roots` (like `penstock[agent]`) come to, and those of them of which there is
    no wheel yet."""
    waiting = [Requirement(root) for root in roots]
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        for extra in ("", *sorted(requirement.extras)):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            environment = {**target.markers(), "extra": extra}
            needed = map(Requirement, wheels[name].requires if name in wheels else ())
            waiting += [
                each for each in needed if each.marker is None or each.marker.evaluate(environment)
            ]
    names = {name for name, _ in seen}
    return names, {name for name in names if name not in wheels}


def pins(constraints: str) -> dict[str, str]:
    """Of `name==version` lines."""
    rows = (line.strip().partition("==") for line in constraints.splitlines())
    return {canonicalize_name(name): version for name, found, version in rows if found}


class Wanted(msgspec.Struct, frozen=True):
    """All that `roots` come to on `target`, but what is named in `without`."""

    roots: tuple[str, ...]
    target: Target
    without: frozenset[str] = frozenset()


def fetched(
    wanted: Wanted,
    own: Path,
    pinned: Mapping[str, str],
    into: Path,
    fetch: Callable[[Mapping[str, str]], None],
) -> dict[str, Wheel]:
    """The wheels by name, `own` among them. `fetch` is asked for those that are missing, in rounds:
    what a wheel needs is known once it is there."""
    wheels = {name: Wheel(Path(), name, "", (), "") for name in wanted.without}
    wheels["penstock"] = read_wheel(own)
    while True:
        names, missing = closure(wheels, wanted.roots, wanted.target)
        if not missing:
            return {name: wheels[name] for name in sorted(names - wanted.without)}
        if unknown := sorted(missing - set(pinned)):
            raise SystemExit(f"constraints.txt pins no version of {', '.join(unknown)}")
        fetch({name: pinned[name] for name in missing})
        wheels |= {each.name: each for each in map(read_wheel, sorted(into.glob("*.whl")))}
        if still := sorted(missing - set(wheels)):
            raise SystemExit(f"pip gave no wheel of {', '.join(still)}")


def exported(repository: Path, commit: str, into: Path) -> Path:
    """What is committed, in `into`."""
    archive = subprocess.run(
        ["git", "-C", str(repository), "archive", commit], capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tree:
        tree.extractall(into, filter="data")
    return into


def stamp(source: Path, version: str) -> None:
    """Names the version in a tree that was exported: two commits have two versions."""
    for name, pattern in (
        ("pyproject.toml", r'^version = "[^"]*"$'),
        ("penstock/__init__.py", r'^__version__ = "[^"]*"$'),
    ):
        file = source / name
        former = file.read_text()
        lines = re.findall(pattern, former, re.MULTILINE)
        if len(lines) != 1:
            raise SystemExit(f"{name} has {len(lines)} lines that name a version, instead of one")
        line = f'{lines[0].partition(" = ")[0]} = "{version}"'
        file.write_text(former.replace(lines[0], line))


def built(source: Path, into: Path) -> Path:
    """Penstock's wheel, without anything compiled."""
    # CC: the module would be of this machine's Python and glibc.
    own = ["--no-deps", "--no-build-isolation", f"--wheel-dir={into}", str(source)]
    run_pip("wheel", *own, more={"CC": "false"})
    (wheel,) = into.glob("*.whl")
    return wheel


def run_pip(command: str, *options: str, more: Mapping[str, str] | None = None) -> None:
    """With its own settings, and `more` in its environment. Raises SystemExit if it fails."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", command, "--quiet"]
    ended = subprocess.run(
        [*pip, *options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(more or {})},
    )
    if ended.returncode:
        said = (ended.stderr.strip() or ended.stdout.strip())[-_LAST_WORDS:]
        raise SystemExit(f"pip {command} failed, and nothing was made:\n{said}")


def compiled(source: Path, into: Path) -> dict[str, Path]:
    """The modules in C for this machine's processor, for every Python from 3.11 on, by where they
    lie in the wheel. Raises SystemExit if there is no compiler, or if one needs a younger glibc
    than was promised."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        files = list(pool.map(lambda name: _compiled(source, name, into), MODULES))
    return {
        f"penstock/programs/{name}.abi3.so": file for name, file in zip(MODULES, files, strict=True)
    }


def _compiled(source: Path, name: str, into: Path) -> Path:
    code = source / f"{name}.c"
    module = into / f"{code.stem}.abi3.so"
    headers = f"-I{sysconfig.get_path('include')}"
    # Named without its folder, which would be in there.
    compiler = os.environ.get("CC", "cc")
    ended = subprocess.run(
        [compiler, *_STABLE_ABI, headers, code.name, *_LINKED, "-o", str(module)],
        cwd=code.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise SystemExit(f"{name}.c is not compiled:\n{ended.stderr}")
    if elf.needs(module).glibc() > GLIBC:
        raise SystemExit(f"{compiler} made {name}.c need a younger glibc than {GLIBC}")
    return module


def with_modules(
    wheel: Path, modules: Mapping[str, Path], processor: Processor, into: Path
) -> Path:
    """The same wheel, of one platform, and the modules in it."""
    tag = f"cp311-abi3-manylinux_{GLIBC[0]}_{GLIBC[1]}_{processor.name}"
    into.mkdir(parents=True, exist_ok=True)
    made = into / wheel.name.replace("py3-none-any", tag)
    with zipfile.ZipFile(wheel) as former:
        time = former.infolist()[0].date_time
        files = {each.filename: former.read(each) for each in former.infolist()}
    files |= {there: module.read_bytes() for there, module in modules.items()}
    (record,) = (name for name in files if name.endswith(".dist-info/RECORD"))
    del files[record]
    about = record.replace("RECORD", "WHEEL")
    lines = files[about].decode().splitlines()
    kept = [each for each in lines if not each.startswith(("Tag:", "Root-Is-Purelib:"))]
    kept = [*(each for each in kept if each), "Root-Is-Purelib: false", f"Tag: {tag}"]
    files[about] = "".join(f"{each}\n" for each in kept).encode()
    rows = "".join(f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items())
    files[record] = f"{rows}{record},,\n".encode()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            member = zipfile.ZipInfo(name, time)
            member.external_attr = (0o755 if name in modules else 0o644) << 16
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, data)
    return made


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
