"""The agent's bundle: a folder that runs on every Linux of its processor, whatever is installed.

    bin/penstock, bin/python3    shell scripts: they start the interpreter below
    lib/                         the interpreter, its C library and what else it needs, from Debian
    lib/python3.13/              its standard library, as far as it is of use here
    lib/python3/dist-packages/   Penstock, and the wheels of its extra `agent`
    licenses/, RELEASE           whose it is; which release it is

Nothing in it says where it lies. A running agent never loads a library of the host: `checked` finds
every library that anything in the bundle asks for in the bundle.
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
# Of no use to an agent, or of use to nobody without libraries that are not here.
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
# Another way to the same library, by a package that is not here: a tenth of the bundle.
_PACKAGES_LEFT_OUT: Final = ("zstandard/_cffi*",)
_IMPORTS: Final = """
import bz2, ctypes, importlib, lzma, pkgutil, ssl, zlib
import penstock, agent
for module in pkgutil.walk_packages(agent.__path__, "agent."):
    importlib.import_module(module.name)
"""
# What libc6 has besides, and only its own tools and other C libraries' programs ask for.
_LIBRARIES_LEFT_OUT: Final = (
    *("libBrokenLocale*", "libanl*", "libc_malloc_debug*", "libmemusage*", "libnsl*", "libnss_*"),
    *("libpcprofile*", "libthread_db*", "libexpatw*"),
)


def assemble(
    tree: Path, debian: Path, wheels: Iterable[Wheel], processor: Processor, release: str
) -> None:
    """All but the compiled modules of Python, in `tree`. `debian` holds the unpacked packages."""
    libraries = tree / "lib"
    libraries.mkdir(parents=True)
    shutil.copyfile(debian / f"usr/bin/python{BUNDLED_PYTHON}", libraries / "python")
    (libraries / "python").chmod(0o755)
    triplet = debian / f"usr/lib/{processor.name}-linux-gnu"
    left_out = {each for pattern in _LIBRARIES_LEFT_OUT for each in triplet.glob(pattern)}
    for library in sorted({*triplet.glob("*.so*")} - left_out):
        if library.name == _soname(library.name):
            # A link leads to the file with its full version: one of the two is enough.
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
    """A wheel's files, where the interpreter finds them. Its commands are left out."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            name = PurePosixPath(member.filename)
            first, *rest = name.parts
            if first.endswith(".data"):
                if rest[0] not in {"purelib", "platlib"}:
                    continue
                name = PurePosixPath(*rest[1:])
            if name.is_absolute() or ".." in name.parts:
                raise ValueError(f"{wheel.name} holds {member.filename!r}, which leads out of it")
            if not member.is_dir():
                target = packages / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(member))


def compile_modules(tree: Path, interpreter: Path) -> None:
    """Their bytecode, which is believed without a look at the source: so it holds no time, and a
    host that may not write there starts as fast. `interpreter` is of a bundle for this machine."""
    python = interpreter / "bin/python3"
    options = ["-q", "-f", "--invalidation-mode=unchecked-hash", "-s", str(tree), "-p", "/penstock"]
    subprocess.run(
        # -s: in one process, so that the order in which names are met is always the same.
        [str(python), "-I", "-m", "compileall", "-j1", *options, str(tree / "lib")],
        check=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )


def checked(tree: Path, processor: Processor) -> list[str]:
    """What is wrong with it: libraries that it has not, files for another processor, links that
    lead out of it."""
    files = sorted(tree.rglob("*"))
    here = {path.name for path in files}
    wrong = []
    for path in files:
        name = path.relative_to(tree)
        if path.is_symlink() and not path.resolve().is_relative_to(tree.resolve()):
            wrong.append(f"{name} is a link to {path.readlink()}")
        elif elf.is_elf(path):
            found = elf.needs(path)
            if found.machine != processor.elf_machine:
                wrong.append(f"{name} is for another processor ({found.machine})")
            wrong += [f"{name} needs {each}" for each in found.libraries if each not in here]
    return wrong


def imports(tree: Path) -> str:
    """What goes wrong where the agent's modules are imported; "" if nothing does. Only for a bundle
    for this machine's processor."""
    ended = subprocess.run(
        [str(tree / "bin/python3"), "-c", _IMPORTS], capture_output=True, text=True, check=False
    )
    return ended.stderr if ended.returncode else ""


def _soname(name: str) -> str:
    """`libz.so.1` of `libz.so.1.3.1`; a library is asked for by that."""
    beginning, found, version = name.partition(".so.")
    parts = version.split(".")
    kept = ".".join(parts[:2]) if beginning == "libbz2" else parts[0]
    return f"{beginning}.so.{kept}" if found else name


def _loader(debian: Path, processor: Processor) -> Path:
    triplet = f"{processor.name}-linux-gnu"
    for folder in (f"usr/lib/{triplet}", "usr/lib", "usr/lib64", "lib"):
        if (debian / folder / processor.loader).exists():
            return (debian / folder / processor.loader).resolve()
    raise SystemExit(f"libc6 for {processor.debian} holds no {processor.loader}")
