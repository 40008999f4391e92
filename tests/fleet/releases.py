"""A release folder for tests, made without a network of what this Python has installed.

Installed packages are packed into wheels again, by what their RECORD lists; penstock's own wheel is
built of the working tree. So hosts get what the tests themselves run with. `deploy/bundle` makes
the ones for users. Of PySpark only ZooKeeper's jars are taken, unless a loader is to run.
"""

import csv
import hashlib
import io
import os
import platform
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Set
from importlib import metadata
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from harness.hosts import HostFailed
from tests.fleet.fleet import ROOT

EXTRAS: Final = ("agent", "broker", "registry", "audit", "mirror", "certificates")
_MOMENT: Final = (1980, 1, 1, 0, 0, 0)
_NOT_OF_A_WHEEL: Final = {"INSTALLER", "REQUESTED", "direct_url.json", "RECORD"}
_JAR: Final = re.compile(
    r"pyspark/jars/(zookeeper|zookeeper-jute|slf4j-api|metrics-core|snappy-java|log4j-api"
    r"|log4j-core|log4j-slf4j2-impl|netty-[a-z0-9-]+)-[0-9][^/]*\.jar"
)

_PROGRAM: Final = """#!/usr/bin/python3 -I
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from penstock.command_line import main

main()
"""


def older_tree(directory: Path, came: str) -> Path:
    """The repository as it was when this file came. Raises HostFailed where that is not known: in a
    clone without its history."""
    directory.mkdir(parents=True)
    archive = directory.with_suffix(".tar")
    # By what it brought: a commit's number does not outlive a history that is written anew.
    added = _git("log", "--diff-filter=A", "--format=%H", "--", came).split()
    if not added:
        raise HostFailed(f"no commit brought {came}")
    _git("archive", "--output", str(archive), added[-1])
    with tarfile.open(archive) as tar:
        tar.extractall(directory, filter="data")
    return directory


def _git(*arguments: str) -> str:
    asked = ["git", "-C", str(ROOT), *arguments]
    ended = subprocess.run(asked, check=False, capture_output=True, text=True)
    if ended.returncode:
        raise HostFailed(f"git {arguments[0]}: {ended.stderr}")
    return ended.stdout


def build_wheel(directory: Path, version: str | None = None, tree: Path = ROOT) -> Path:
    """penstock's, of the working tree or another; as another version if one is given."""
    directory.mkdir(parents=True, exist_ok=True)
    build = (sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory")
    subprocess.run(
        [*build, str(directory)],
        cwd=tree,
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": ""},
    )
    built = next(iter(directory.glob("penstock-*.whl")))
    return built if version is None else _renamed(built, version)


def with_broken_wheel(wheel: Path) -> Path:
    """A copy in a folder of its own, of the same name, that pip cannot make anything of."""
    broken = wheel.parent / "broken" / wheel.name
    broken.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(wheel) as source:
        content = {name: source.read(name) for name in source.namelist()}
    gone = ("/WHEEL", "/RECORD")  # the latter is written anew
    left = {name: data for name, data in content.items() if not name.endswith(gone)}
    _write_wheel(
        broken, next(each.partition("/")[0] for each in left if "dist-info/" in each), left
    )
    return broken


def make_release(directory: Path, wheel: Path, extras: Iterable[str] = EXTRAS) -> str:
    """A release of that wheel in `directory`; its version. Wheels of others are made once for all
    releases that lie in one folder."""
    wanted = tuple(extras)
    version = wheel.name.split("-")[1]
    wheels = directory.parent / "wheels"
    for folder in (directory, wheels):
        folder.mkdir(parents=True, exist_ok=True)
    needs = {extra: sorted(_closure(extra)) for extra in wanted}
    packed = {name: _packed(name, wheels) for name in set().union(*needs.values())}
    tag = f"py{sys.version_info.major}{sys.version_info.minor}"
    name = f"penstock-wheelhouse-{version}-{tag}-linux-{platform.machine()}.tar"
    with tarfile.open(directory / name, "w") as tar:
        spark = packed.get("pyspark") or _spark(wheels)
        for each in sorted({wheel, *packed.values(), _packed("pip", wheels), spark}):
            tar.add(each, each.name)
        for extra, names in needs.items():
            lines = [_pinned(f"penstock[{extra}]", wheel)]
            lines += [_pinned(each, packed[each]) for each in names]
            _add(tar, f"requirements-{extra}.txt", "".join(lines).encode())
    sum_of = hashlib.sha256((directory / name).read_bytes()).hexdigest()
    with (directory / "SHA256SUMS").open("a") as sums:
        sums.write(f"{sum_of}  {name}\n")
    _make_agent(directory, wheel, [packed[name] for name in _closure("agent")])
    return version


def _make_agent(directory: Path, wheel: Path, others: Iterable[Path]) -> None:
    """The agent's bundle, but for the interpreter: it runs by the host's Python, which is ours."""
    version = wheel.name.split("-")[1]
    archive = directory / f"penstock-agent-{version}-linux-{platform.machine()}.tar.gz"
    top = f"penstock-agent-{version}"
    with tarfile.open(archive, "w:gz", compresslevel=0) as tar:
        _add(tar, f"{top}/bin/penstock", _PROGRAM.encode(), mode=0o755)
        for each in (wheel, *others):
            with zipfile.ZipFile(each) as packages:
                for name in packages.namelist():
                    _add(tar, f"{top}/lib/{name}", packages.read(name))
    sum_of = hashlib.sha256(archive.read_bytes()).hexdigest()
    with (directory / "SHA256SUMS").open("a") as sums:
        sums.write(f"{sum_of}  {archive.name}\n")


def _renamed(wheel: Path, version: str) -> Path:
    old = wheel.name.split("-")[1]
    renamed = wheel.with_name(wheel.name.replace(f"-{old}-", f"-{version}-"))
    with zipfile.ZipFile(wheel) as source:
        files = {name: source.read(name) for name in source.namelist()}
    information = f"penstock-{old}.dist-info/"
    said = f"\nVersion: {old}\n".encode()
    content = {}
    for name, data in files.items():
        if name.endswith("/RECORD"):
            continue
        target = name.replace(information, f"penstock-{version}.dist-info/")
        is_metadata = name == f"{information}METADATA"
        new = data.replace(said, f"\nVersion: {version}\n".encode()) if is_metadata else data
        if name == "penstock/__init__.py":
            new = data.replace(f'"{old}"'.encode(), f'"{version}"'.encode())
        content[target] = new
    _write_wheel(renamed, f"penstock-{version}.dist-info", content)
    wheel.unlink()
    return renamed


def _closure(extra: str) -> set[str]:
    """Names of all that an extra needs but penstock, as this Python has them."""
    found: set[str] = set()
    todo = [("penstock", frozenset({extra}))]
    seen = set(todo)
    while todo:
        name, extras = todo.pop()
        for line in metadata.requires(name) or []:
            needed = Requirement(line)
            marker = needed.marker
            if marker and not any(marker.evaluate({"extra": each}) for each in extras or {""}):
                continue
            plain = canonicalize_name(needed.name)
            if plain != "penstock":
                found.add(plain)
            step = (plain, frozenset(needed.extras))
            if step not in seen:
                seen.add(step)
                todo.append(step)
    return found


def _packed(name: str, directory: Path) -> Path:
    """The wheel that an installed package came from, as far as it can be had again."""
    package = metadata.distribution(name)
    tags = [
        line.removeprefix("Tag: ")
        for line in (package.read_text("WHEEL") or "").splitlines()
        if line.startswith("Tag: ")
    ]
    python, abi, _ = tags[0].split("-")
    platforms = ".".join(dict.fromkeys(tag.split("-")[2] for tag in tags))
    pythons = ".".join(dict.fromkeys(tag.split("-")[0] for tag in tags)) or python
    said = package.metadata["Name"].replace("-", "_")
    wheel = directory / f"{said}-{package.version}-{pythons}-{abi}-{platforms}.whl"
    if not wheel.exists():
        content = dict(_files_of(package))
        folder = next(name for name in content if name.endswith(".dist-info/WHEEL"))
        runs = {name for name in content if os.access(str(package.locate_file(name)), os.X_OK)}
        _write_wheel(wheel, folder.partition("/")[0], content, runs)
    return wheel


def _files_of(package: metadata.Distribution) -> Iterator[tuple[str, bytes]]:
    for file in package.files or []:
        inside = ".." not in file.parts and not file.is_absolute()
        is_left_out = file.suffix == ".pyc" or (
            file.parts[0].endswith(".dist-info") and file.name in _NOT_OF_A_WHEEL
        )
        if inside and not is_left_out:
            yield str(file), Path(str(file.locate())).read_bytes()


def _spark(directory: Path) -> Path:
    """What has ZooKeeper's jars."""
    version = metadata.version("pyspark")
    wheel = directory / f"pyspark-{version}-py2.py3-none-any.whl"
    if not wheel.exists():
        package = metadata.distribution("pyspark")
        jars = [file for file in package.files or [] if _JAR.fullmatch(str(file))]
        content = {str(jar): Path(str(jar.locate())).read_bytes() for jar in jars}
        _write_wheel(wheel, f"pyspark-{version}.dist-info", content)
    return wheel


def _write_wheel(
    wheel: Path, information: str, content: dict[str, bytes], runs: Set[str] = frozenset()
) -> None:
    """Not compressed: it is unpacked soon, and many times. `runs` are names of what is executed."""
    record = io.StringIO()
    lines = csv.writer(record, lineterminator="\n")
    unfinished = wheel.with_suffix(".unfinished")
    with zipfile.ZipFile(unfinished, "w") as archive:
        for name, data in sorted(content.items()):
            file = zipfile.ZipInfo(name, _MOMENT)
            file.external_attr = (0o100755 if name in runs else 0o100644) << 16
            archive.writestr(file, data)
            lines.writerow((name, "", len(data)))
        lines.writerow((f"{information}/RECORD", "", ""))
        archive.writestr(zipfile.ZipInfo(f"{information}/RECORD", _MOMENT), record.getvalue())
    unfinished.rename(wheel)


def _pinned(name: str, wheel: Path) -> str:
    version = wheel.name.split("-")[1]
    sum_of = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return f"{name}=={version} --hash=sha256:{sum_of}\n"


def _add(tar: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    member = tarfile.TarInfo(name)
    member.mode = mode
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))
