"""The agent's bundle: a folder that runs on any Linux with its processor, needing no packages.

    bin/penstock, bin/python3    shell scripts that start the interpreter in lib
    lib/                         the interpreter, its C library and other libraries, from Debian
    lib/python3.13/              the parts of its standard library that an agent uses
    lib/python3/dist-packages/   Penstock, and the wheels of its extra `agent`
    licenses/, RELEASE           copyright notices; the release's version

The folder can be moved: no file in it contains its path. A running agent loads no library of the
host: `problems` checks that the bundle contains every library that its files need.
"""

import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Final

from deploy.bundle import elf
from deploy.bundle.targets import BUNDLED_PYTHON, Processor
from deploy.bundle.wheels import Wheel

_SCRIPT: Final = Path(__file__).with_name("launcher.sh")
_STDLIB: Final = f"lib/python{BUNDLED_PYTHON}"
PACKAGES: Final = "lib/python3/dist-packages"
# Modules that an agent does not use, or that need libraries that the bundle does not contain.
_LEFT_OUT: Final = (
    *(
        "sitecustomize.py",
        "EXTERNALLY-MANAGED",
        "_pyrepl",
        "curses",
        "dbm",
        "idlelib",
        "pydoc_data",
    ),
    *("sqlite3", "test", "turtle.py", "venv", "xmlrpc"),
    *("lib-dynload/_curses*", "lib-dynload/_dbm*", "lib-dynload/_sqlite3*", "lib-dynload/_test*"),
    *("lib-dynload/_ctypes_test*", "lib-dynload/_uuid*", "lib-dynload/_xx*", "lib-dynload/xx*"),
    *("lib-dynload/readline*",),
)
# A second binding to the same library, a tenth of the bundle; and what only cffi's compiler needs:
# cryptography loads its module in C alone.
_PACKAGES_LEFT_OUT: Final = ("zstandard/_cffi*", "cffi/*", "pycparser/*")
_IMPORTS: Final = """
import bz2, ctypes, importlib, lzma, pkgutil, ssl, zlib
import penstock, agent
from ground.signatures.keys import SigningKey
SigningKey.new().sign(b"")
for module in pkgutil.walk_packages(agent.__path__, "agent."):
    importlib.import_module(module.name)
"""
# Libraries in these packages that only libc's tools or other programs load.
_LIBRARIES_LEFT_OUT: Final = (
    *("libBrokenLocale*", "libanl*", "libc_malloc_debug*", "libmemusage*", "libnsl*", "libnss_*"),
    *("libpcprofile*", "libthread_db*", "libexpatw*"),
)


def assemble(
    tree: Path, debian: Path, wheels: Iterable[Wheel], processor: Processor, release: str
) -> None:
    """Fills `tree`, except for bytecode. `debian` holds the unpacked packages."""
    libraries = tree / "lib"
    libraries.mkdir(parents=True)
    shutil.copyfile(debian / f"usr/bin/python{BUNDLED_PYTHON}", libraries / "python")
    (libraries / "python").chmod(0o755)
    triplet = debian / f"usr/lib/{processor.name}-linux-gnu"
    excluded_paths = {path for pattern in _LIBRARIES_LEFT_OUT for path in triplet.glob(pattern)}
    for library in sorted({*triplet.glob("*.so*")} - excluded_paths):
        if library.name == _soname(library.name):
            # A link to the file with the full version. Programs load the link's name.
            shutil.copyfile(library.resolve(), libraries / library.name)
            (libraries / library.name).chmod(0o755)
    loader = libraries / processor.loader
    shutil.copyfile(_loader(debian, processor), loader)
    loader.chmod(0o755)
    shutil.copytree(debian / f"usr/lib/python{BUNDLED_PYTHON}", tree / _STDLIB, symlinks=True)
    for pattern in _LEFT_OUT:
        for path in (tree / _STDLIB).glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for wheel in wheels:
        unpack(wheel.path, tree / PACKAGES)
    for pattern in _PACKAGES_LEFT_OUT:
        for path in (tree / PACKAGES).glob(pattern):
            path.unlink()
    for notice in sorted(debian.glob("usr/share/doc/*/copyright")):
        target = tree / "licenses" / notice.parent.name / "copyright"
        target.parent.mkdir(parents=True)
        shutil.copyfile(notice, target)
    (tree / "bin").mkdir()
    for name, options in (("python3", "-I"), ("penstock", "-I -m penstock")):
        text = _SCRIPT.read_text().replace("@LOADER@", processor.loader)
        (tree / "bin" / name).write_text(text.replace("@OPTIONS@", options))
        (tree / "bin" / name).chmod(0o755)
    (tree / "RELEASE").write_text(f"{release}\n")


def unpack(wheel: Path, packages: Path) -> None:
    """Unpacks a wheel's packages into `packages`, without its commands."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            name = PurePosixPath(member.filename)
            first_part, *other_parts = name.parts
            if first_part.endswith(".data"):
                if other_parts[0] not in {"purelib", "platlib"}:
                    continue
                name = PurePosixPath(*other_parts[1:])
            if name.is_absolute() or ".." in name.parts:
                raise ValueError(f"{wheel.name}: path {member.filename!r} leaves the folder")
            if not member.is_dir():
                target = packages / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(member))


def compile_modules(tree: Path, interpreter: Path) -> None:
    """Writes bytecode that Python does not compare with the source: it contains no timestamp, and
    keeps starts fast even if the agent cannot write to the folder. `interpreter` is a bundle that
    runs here."""
    python = interpreter / "bin/python3"
    options = ["-q", "-f", "--invalidation-mode=unchecked-hash", "-s", str(tree), "-p", "/penstock"]
    subprocess.run(
        # -j1: with several processes the order of interned names would differ between builds.
        [str(python), "-I", "-m", "compileall", "-j1", *options, str(tree / "lib")],
        check=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )


def problems(tree: Path, processor: Processor) -> list[str]:
    """Lists missing libraries, files for another processor, and links that leave the bundle."""
    files = sorted(tree.rglob("*"))
    names = {path.name for path in files}
    lines = []
    for path in files:
        name = path.relative_to(tree)
        if path.is_symlink() and not path.resolve().is_relative_to(tree.resolve()):
            lines.append(f"{name} is a link to {path.readlink()}")
        elif elf.is_elf(path):
            needs = elf.needs(path)
            if needs.machine != processor.elf_machine:
                lines.append(f"{name} is for another processor ({needs.machine})")
            lines += [
                f"{name} needs {library}" for library in needs.libraries if library not in names
            ]
    return lines


def import_errors(tree: Path) -> str:
    """Imports all of the agent's modules with the bundle's interpreter; returns the traceback, ""
    on success. Only for a bundle for this machine's processor."""
    result = subprocess.run(
        [str(tree / "bin/python3"), "-c", _IMPORTS], capture_output=True, text=True, check=False
    )
    return result.stderr if result.returncode else ""


def _soname(name: str) -> str:
    """The name by which programs load a library: `libz.so.1` for `libz.so.1.3.1`."""
    stem, separator, version = name.partition(".so.")
    parts = version.split(".")
    kept_version = ".".join(parts[:2]) if stem == "libbz2" else parts[0]
    return f"{stem}.so.{kept_version}" if separator else name


def _loader(debian: Path, processor: Processor) -> Path:
    triplet = f"{processor.name}-linux-gnu"
    for folder in (f"usr/lib/{triplet}", "usr/lib", "usr/lib64", "lib"):
        if (debian / folder / processor.loader).exists():
            return (debian / folder / processor.loader).resolve()
    raise SystemExit(f"libc6 for {processor.debian} contains no {processor.loader}")
