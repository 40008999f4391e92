"""Virtual environments with other packages than the tests' own: other versions of PySpark, and the
programs that read tables without it.

Each has what a file in requirements/ names, by checksum, and is kept in `.cache/pythons`, made once
by pip. The first process that asks makes it; others wait for it.
"""

import fcntl
import functools
import hashlib
import subprocess
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.java.maven_jars import CACHE

_REQUIREMENTS: Final = Path(__file__).resolve().parents[2] / "requirements"
_LOCKED: Final = ("--require-hashes", "--no-build-isolation", "--use-pep517", "--requirement")
_WITHIN_SECONDS: Final = 1800.0  # PySpark is 450 MB, and built here


class PythonUnavailable(Exception):
    """The environment cannot be made; the message says why."""


@functools.cache
def python_with(name: str) -> Path:
    """Returns a Python with what `requirements/NAME.txt` lists. Raises PythonUnavailable."""
    requirements = _REQUIREMENTS / f"{name}.txt"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]
    folder = CACHE / "pythons" / f"{name}-{digest}"
    complete = folder / "complete"
    folder.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.making").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            venv.create(folder, with_pip=True, clear=True)
            for file in (_REQUIREMENTS / "build.txt", requirements):
                _install(folder, [*_LOCKED, str(file)])
            complete.touch()
    return folder / "bin" / "python"


def python_with_ours(name: str, folder: Path) -> Path:
    """Returns a Python, made in the folder, with the packages of `requirements/NAME.txt` in the
    place of the tests' own; all others, and our code, are those of this process."""
    theirs = python_with(name).parents[1]
    venv.create(folder, symlinks=True)
    paths = (_packages(theirs), _REQUIREMENTS.parent, Path(sysconfig.get_path("purelib")))
    (_packages(folder) / "paths.pth").write_text("".join(f"{path}\n" for path in paths))
    return folder / "bin" / "python"


def version_in(name: str, package: str) -> str:
    """Returns the version that `requirements/NAME.txt` has of the package."""
    lines = (_REQUIREMENTS / f"{name}.txt").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{package}=="))
    return line.removeprefix(f"{package}==").split()[0]


def _packages(environment: Path) -> Path:
    (packages,) = environment.glob("lib/python*/site-packages")
    return packages


def _install(folder: Path, arguments: Sequence[str]) -> None:
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *arguments]
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=_WITHIN_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise PythonUnavailable(f"pip did not end within {_WITHIN_SECONDS:.0f} s") from None
    if run.returncode:
        lines = run.stderr.strip().splitlines() or ["no output"]
        raise PythonUnavailable(f"pip cannot install {arguments[-1]}: {lines[-1]}")
